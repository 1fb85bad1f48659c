//! Random trees against the definition, word by word, in rationals.

use num_rational::BigRational;
use num_traits::{FromPrimitive, ToPrimitive, Zero};
use prorata::hierarchy::{Hierarchy, Place, Rate};

use crate::common::random::Random;

fn rational(number: u64) -> BigRational {
    BigRational::from_u64(number).expect("a number")
}

struct Member {
    place: Place,
    weight: u32,
    /// Index of the parent; none for the root.
    parent: Option<usize>,
    depth: u32,
    /// Tasks that are runnable; `None` for a node.
    runnable: Option<bool>,
}

struct Twin {
    cpus: usize,
    tree: Hierarchy,
    members: Vec<Member>,
}

impl Twin {
    fn new(cpus: usize) -> Twin {
        let root =
            Member { place: Hierarchy::ROOT, weight: 1, parent: None, depth: 0, runnable: None };
        Twin { cpus, tree: Hierarchy::new(), members: vec![root] }
    }

    fn children(&self, of: usize) -> impl Iterator<Item = usize> {
        (0..self.members.len()).filter(move |&i| self.members[i].parent == Some(of))
    }

    fn leaves(&self, of: usize) -> u64 {
        match self.members[of].runnable {
            Some(runnable) => u64::from(runnable),
            None => self.children(of).map(|child| self.leaves(child)).sum(),
        }
    }

    /// share(node, r).
    fn share(&self, node: usize, r: &BigRational, rates: &mut [BigRational]) {
        let weight = |k: usize| rational(u64::from(self.members[k].weight));
        let mut competing: Vec<(usize, u64)> =
            self.children(node).map(|k| (k, self.leaves(k))).filter(|k| k.1 > 0).collect();
        let mut rest = r.clone();
        let mut sum: BigRational = competing.iter().map(|&(k, _)| weight(k)).sum();
        while let Some(at) =
            competing.iter().position(|&(k, leaves)| weight(k) * &rest > rational(leaves) * &sum)
        {
            let (k, leaves) = competing.remove(at);
            rates[k] = rational(leaves);
            rest -= rational(leaves);
            sum -= weight(k);
            self.share(k, &rational(leaves), rates);
        }
        for (k, _) in competing {
            rates[k] = weight(k) * &rest / &sum;
            let rate = rates[k].clone();
            self.share(k, &rate, rates);
        }
    }

    fn compare(&self) {
        let mut expected = vec![BigRational::zero(); self.members.len()];
        expected[0] = rational(self.leaves(0).min(self.cpus as u64));
        self.share(0, &expected[0].clone(), &mut expected);
        let rates = self.tree.rates(self.cpus);
        self.tree.certify(self.cpus, &rates).expect("the checker accepts the ideal");
        for (member, expected) in self.members.iter().zip(&expected) {
            let rate = rates.of(member.place);
            let terms = (expected.numer().to_u128(), expected.denom().to_u128());
            let same = match terms {
                (Some(numerator), Some(denominator)) => rate == Rate::ratio(numerator, denominator),
                // Too long to be printed exactly: 64 digits after the point.
                _ => {
                    let scaled = (expected * rational(1 << 32) * rational(1 << 32)).floor();
                    scaled.to_integer().to_u128() == Some(rate.fixed_point())
                }
            };
            assert!(same, "{:?}: {rate}, not {expected}", member.place);
        }
    }

    fn grow(&mut self, random: &mut Random, leaves: u32, depth: u32, bits: u32) {
        let nodes = if depth > 1 { random.below(leaves / 4 + 1) } else { 0 };
        for _ in 0..nodes {
            self.add(random, depth - 1, bits, None);
        }
        for _ in 0..leaves {
            let runnable = random.below(5) > 0;
            self.add(random, depth, bits, Some(runnable));
        }
    }

    /// A random node above `depth`.
    fn node(&self, random: &mut Random, depth: u32) -> usize {
        let nodes: Vec<usize> = (0..self.members.len())
            .filter(|&i| self.members[i].runnable.is_none() && self.members[i].depth < depth)
            .collect();
        nodes[random.index(nodes.len())]
    }

    fn add(&mut self, random: &mut Random, depth: u32, bits: u32, runnable: Option<bool>) {
        let parent = self.node(random, depth);
        let weight = random.weight(bits);
        let above = &self.members[parent];
        let place = self.tree.add(above.place, crate::common::weight(weight));
        self.tree.set_width(place, u32::from(runnable == Some(true)));
        let depth = above.depth + 1;
        self.members.push(Member { place, weight, parent: Some(parent), depth, runnable });
    }

    fn change(&mut self, random: &mut Random, bits: u32) {
        let at = 1 + random.index(self.members.len() - 1);
        let weight = random.weight(bits);
        let parent = self.node(random, self.members[at].depth);
        let Twin { tree, members, .. } = self;
        let above = members[parent].place;
        let member = &mut members[at];
        match (random.below(3), member.runnable) {
            (0, _) => {
                tree.set_weight(member.place, crate::common::weight(weight));
                member.weight = weight;
            }
            (1, Some(runnable)) => {
                tree.set_width(member.place, u32::from(!runnable));
                member.runnable = Some(!runnable);
            }
            // Not below itself: what is above is no deeper.
            _ if !tree.is_within(above, member.place) => {
                tree.move_to(member.place, above);
                member.parent = Some(parent);
            }
            _ => {}
        }
    }
}

fn random_trees(trees: u64, most_leaves: u32) {
    for seed in 0..trees {
        let mut random = Random(seed);
        let cpus = 1 + random.index(64);
        let (leaves, depth) = (1 + random.below(most_leaves), 1 + random.below(5));
        let bits = [2, 7, 14, 32][random.index(4)];
        eprintln!("seed {seed}: {leaves} leaves on {cpus} cpus");
        let mut twin = Twin::new(cpus);
        twin.grow(&mut random, leaves, depth, bits);
        twin.compare();
        for _ in 0..3 {
            for _ in 0..5 {
                twin.change(&mut random, bits);
            }
            twin.compare();
        }
    }
}

#[test]
fn some_random_trees() {
    random_trees(150, 60);
}

/// Takes minutes.
#[test]
#[ignore = "a campaign: run it with --ignored after a change of the ideal"]
fn ten_thousand_random_trees() {
    random_trees(10_000, 200);
}
