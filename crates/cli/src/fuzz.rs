//! What only the command line reads, fed with garbage: recordings of the kernel's scheduler, weights, lists
//! of cpus, whole command lines. Nothing may panic or hang. `cargo xtask fuzz` does so for minutes.

use std::cell::RefCell;

use clap::{CommandFactory, FromArgMatches};

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
    "\
     prorata-record 1 policy gdq-distributed:sleepers=paper,t=3,delta=4 cpus 2 quantum_ns 5000000\n\
     0 add 1 69 1024 0 0\n3948000000 add 0 70 1024 0 0\n0 wake 1 69 0 0 1\n\
     0 open 1 - 0 0 0 q0:0 g10:0\n0 place 1 69 67108865 0 2 q0:1\n3401000000 look 0 - 1 0 0 s:0\n\
     3401000000 seek 0 - 0 0 0 s:1\n3401000000 seek 0 - 0 0 0 s:2\n3401000000 idle 0 - 0 0 0\n\
     3562000000 seek 0 - 0 0 0 s:3\n3562000000 seek 0 - 0 0 0 s:4\n3562000000 idle 0 - 0 0 0\n\
     3948000000 seek 0 - 0 0 0 s:5\n3948000000 claim 0 - 0 0 0 q0:2\n\
     3948000000 arrive 0 - 10 0 0 s:6\n3948000000 pick 0 69 0 0 3 q0:3\n\
     3948000000 wake 0 70 0 0 1\n3948000000 place 0 70 67108865 0 2 q0:6\n\
     3948000000 charge 0 69 239949 1 9\n3948000000 block 0 69 0 0 10 q0:8\n\
     4030000000 look 1 - 1 0 0 s:7\n4030000000 tell 1 69 1024 1 4 s:8\n\
     4030000000 told 1 69 67108865 0 5 s:9\n4030000000 recount 1 69 67108865 0 6 q0:4\n\
     4030000000 told 1 69 67108865 0 7 s:10\n4030000000 recount 1 69 67108865 0 8 q0:5\n\
     4030000000 settle 1 - 0 0 0 s:11\n4030000000 seek 1 - 0 0 0 s:12\n\
     4030000000 seek 1 - 0 0 0 s:13\n4030000000 open 1 - 1 0 0 q1:0 g10:1\n\
     4030000000 refill 1 70 0 0 3 q1:1 q0:7\n4030000000 arrive 1 - 10 0 0 s:14\n\
     4030000000 round 1 - 0 0 0 q1:2\n4030000000 pick 1 70 0 0 4 q1:3\n\
     4030000000 charge 1 70 119939 1 10\n4030000000 block 1 70 0 0 11 q1:6\n\
     4198000000 tell 0 70 1024 1 5 s:15\n4198000000 told 0 70 67108865 0 6 s:16\n\
     4198000000 recount 0 70 67108865 0 7 q1:4\n4198000000 told 0 70 67108865 0 8 s:17\n\
     4198000000 recount 0 70 67108865 0 9 q1:5\n4198000000 tell 0 69 1024 0 11 s:18\n\
     4198000000 told 0 69 67108865 0 12 s:19\n4198000000 settle 0 - 0 0 0 s:20\n",
];

thread_local! {
    /// To build it takes longer than to parse with it.
    static COMMAND: RefCell<clap::Command> = RefCell::new(Cli::command());
}

/// As a shell would hand it over, without quotes.
fn read_arguments(text: &str, _seed: u64) {
    let words = std::iter::once("prorata").chain(text.split(' '));
    let matches = COMMAND.with_borrow_mut(|command| command.try_get_matches_from_mut(words));
    let _ = matches.and_then(|matches| Cli::from_arg_matches(&matches));
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
                "aside",
                "block",
                "remove",
                "weight",
                "cpus",
                "reload",
                "away",
                "endow",
                "take",
                "retire",
                "forfeit",
                "forgo",
                "leave",
                "keep",
                "pass",
                "lengthen",
                "return",
                "interrupt",
                "told",
                "steal",
                "q0:1",
                "g10:0",
                "s:0",
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
