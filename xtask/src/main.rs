//! Development tasks: `cargo xtask --help`. Each subcommand is one file.

use std::process::ExitCode;

use clap::Parser;

mod cheats;
mod contest;
mod decisions;
mod figures;
mod fuzz;
mod guest;
mod instructions;
mod no_std;
mod ours;
mod properties;
mod python;
mod readme;
mod report;
mod scaling;
mod setup;
mod shell;
mod test;
mod tidy;
mod vm;
mod vm_apps;
mod vm_kernels;
mod vm_report;
mod vm_stress;
mod vm_test;

/// Development tasks of prorata.
#[derive(Parser)]
#[command(name = "xtask", max_term_width = 100)]
enum Task {
    /// Install the system packages (Debian) and the tools that building and testing need.
    Setup(setup::Args),
    /// Everything that must hold before a change lands.
    Test(test::Args),
    /// Count the instructions of a decision.
    Instructions(instructions::Args),
    /// Check that the core builds without the standard library.
    NoStd(no_std::Args),
    /// Build the Python wheel and test it on the oldest and the newest Python that are there.
    Python(python::Args),
    /// Write the README's table of policies.
    Readme(readme::Args),
    /// Check what neither rustfmt nor clippy looks at.
    Tidy(tidy::Args),
    /// Compute the figures in figures/ with their stamps, or tell how old they are.
    Figures(figures::Args),
    /// Let all policies decide at random, by the billion, and hold them to what they claim.
    Decisions(decisions::Args),
    /// Hold what properties assert to inputs that no run has had.
    Properties(properties::Args),
    /// Search, for every policy, for the tasks that gain most by sleeping, waking each other and ending.
    Cheats(cheats::Args),
    /// Read garbage with every parser.
    Fuzz(fuzz::Args),
    /// Count which cache lines the kernel's policies move between cpus, and model what that costs.
    Scaling(scaling::Args),
    /// For inside the virtual machine.
    #[command(hide = true, subcommand)]
    Guest(guest::Guest),
    /// Run a command in a small virtual machine whose kernel has sched_ext.
    Vm(vm::Args),
    /// Check in that machine what must hold in a real kernel.
    VmTest(vm_test::Args),
    /// Measure shares, lags and costs there, beside the kernel's own scheduler and scx_flash.
    VmReport(vm_report::Args),
    /// Run real programs there, servers and a compiler beside encoders, under the schedulers.
    VmApps(vm_apps::Args),
    /// Load every policy there on kernels of every series, and look at what it does.
    VmKernels(vm_kernels::Args),
    /// Disturb the in-kernel scheduler there at random, and kill its loader.
    VmStress(vm_stress::Args),
}

fn main() -> ExitCode {
    let result = match Task::parse() {
        Task::Setup(args) => args.execute(),
        Task::Test(args) => args.execute(),
        Task::Instructions(args) => args.execute(),
        Task::NoStd(args) => args.execute(),
        Task::Python(args) => args.execute(),
        Task::Readme(args) => args.execute(),
        Task::Tidy(args) => args.execute(),
        Task::Figures(args) => args.execute(),
        Task::Decisions(args) => args.execute(),
        Task::Properties(args) => args.execute(),
        Task::Cheats(args) => args.execute(),
        Task::Fuzz(args) => args.execute(),
        Task::Scaling(args) => args.execute(),
        Task::Guest(guest) => guest.execute(),
        Task::Vm(args) => args.execute(),
        Task::VmTest(args) => args.execute(),
        Task::VmReport(args) => args.execute(),
        Task::VmApps(args) => args.execute(),
        Task::VmKernels(args) => args.execute(),
        Task::VmStress(args) => args.execute(),
    };
    result.unwrap_or_else(|error| {
        eprintln!("xtask: {error:#}");
        ExitCode::from(2)
    })
}
