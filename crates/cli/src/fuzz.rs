//! What only the command line reads, fed with garbage: recordings of the kernel's scheduler, weights, lists
//! of cpus, whole command lines. Nothing may panic or hang. `cargo xtask fuzz` does so for minutes.

use clap::Parser;

#[path = "../../sim/tests/fuzz/mutator.rs"]
mod mutator;

use mutator::{Target, campaign};

use crate::Cli;
use crate::commands::fuzzed;

/// Inputs of each target in the tests.
const FEW: u64 = 300;

const RECORDINGS: &[&str] = &[
    "prorata-record 1 policy gr3 cpus 1 quantum_ns 10\n1 add 0 2 100\n1 add 1 1 101\n2 wake 0\n\
     2 wake 1\n3 pick 0 0\n13 charge 0 10 10\n13 pick 0 0\n23 charge 0 10 10\n23 pick 0 1\n\
     30 charge 1 7 7\n30 block 1\n",
    "prorata-record 1 policy wfq cpus 2 quantum_ns 5000000\n1 add 0 2 100\n1 add 1 1 101\n2 wake 0\n\
     2 wake 1\n3 pick 0 0\n3 pick 1 1\n4 weight 0 7\n5 interrupt -\n9 reload 2\n9 add 0 1 100\n\
     9 wake 0\n9 pick 1 0\n12 charge 0 3 3\n12 remove 0\n",
    "prorata-record 1 policy gdq:t=2,delta=1 cpus 4 quantum_ns 100\n1 add 0 1 9\n2 wake 0\n\
     3 away 0 rescue\n3 block 0\n3 pick 0 -\n13 return 0 0 4\n13 wake 0\n13 pick 0 0\n",
    "prorata-record 1 policy vtrr:sleepers=turns cpus 2 quantum_ns 5000000\n1 add 0 2 100\n2 wake 0\n\
     3 pick 0 0\n4 cpus 1\n4 add 0 2 100\n4 away 0 cpus\n5 pick 0 -\n7 return 0 0 4\n7 wake 0\n\
     7 pick 0 0\n",
    "prorata-record 1 policy gr3:sleepers=turns cpus 1 quantum_ns 64\n1 add 0 2 100\n1 endow 0 32\n1 wake 0\n\
     3 pick 0 0\n4 take 0 16\n5 charge 0 4 4\n5 block 0\n5 retire 0 12\n6 remove 0\n",
];

/// As a shell would hand it over, without quotes.
fn read_arguments(text: &str, _seed: u64) {
    let words = std::iter::once("prorata").chain(text.split(' '));
    let _ = Cli::try_parse_from(words);
}

fn targets() -> Vec<Target<'static>> {
    vec![
        Target {
            name: "recording",
            corpus: RECORDINGS,
            words: &[
                "add",
                "wake",
                "pick",
                "charge",
                "block",
                "remove",
                "weight",
                "cpus",
                "reload",
                "away",
                "endow",
                "take",
                "retire",
                "return",
                "interrupt",
                "-",
                "0",
                "1",
                "2",
                "vtrr",
                "dfs-fa",
                "gr3:sleepers=turns",
                " ",
                "\n",
                "policy",
            ],
            read: &|text, _| drop(fuzzed::replay(text)),
        },
        Target {
            name: "weights",
            corpus: &["3,2,1", "1,4294967295", "7"],
            words: &[",", " ", "+", "-", "e", "."],
            read: &|text, _| drop(fuzzed::weights(text)),
        },
        Target {
            name: "cpus",
            corpus: &["2", "0-3", "0,2-3"],
            words: &[",", "-", " ", "0", "3"],
            read: &|text, _| drop(fuzzed::cpus(text, &[0, 1, 2, 3])),
        },
        Target {
            name: "job",
            corpus: &["5:true", "2@1:true | cat", "3:'make -j4' x", "7:1234"],
            words: &[":", "@", "'", "\"", " ", "\\", "=", "true"],
            read: &|text, _| drop(prorata_run::Job::command(text)),
        },
        Target {
            name: "arguments",
            corpus: &[
                "run --cpus 1 --duration 20s 5:true 2@1:true",
                "simulate --policy gr3 --cpus 2 --weights 3,2,1 --quanta 12 --format json",
                "compare --seeds 100 --policies gr3,eevdf a.toml",
                "figure gr3-9 --policies qfq,eevdf --sets 3 --seed 4 --jobs 2",
                "sweep a.toml -o runs.csv --means means.csv",
                "attach 1:4711 10:4712",
            ],
            words: &[
                "--cpus",
                "--policy",
                "--weights",
                ":",
                "@",
                ",",
                " ",
                "--quantum",
                "5ms",
                "--seed",
                "\u{fffd}",
            ],
            read: &read_arguments,
        },
    ]
}

#[test]
fn no_garbage_makes_the_command_line_panic() {
    for target in targets() {
        target.feed(0, |seed| seed < FEW);
    }
}

#[test]
#[ignore = "takes as long as one likes: `cargo xtask fuzz`"]
fn for_minutes() {
    campaign(&targets());
}
