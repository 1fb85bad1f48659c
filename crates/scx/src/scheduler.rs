// Loading a policy's BPF object; included once for each policy (see `policies.rs`), beside a module
// `skel` with the types of the object.

use std::mem::MaybeUninit;

use anyhow::{Context, Result};
use libbpf_rs::{OpenObject, ProgramInput};
use libbpf_rs::skel::{OpenSkel, Skel as _};
// The macros name their crate and each other.
use scx_utils::{
    compat, scx_ops_load, scx_ops_open, uei_exited, uei_report,
};
use scx_prorata_objects::intf::{slot_layout, weight_call};

use super::skel::{BpfSkel, BpfSkelBuilder};
use crate::cpus;
use crate::kernel;
use crate::libbpf;
use crate::options::{Groups, Locality, Options};
use crate::loaded::Loaded;
use crate::shared::{Addresses, Memory};

pub(in crate::policies) struct Scheduler<'a> {
    skel: BpfSkel<'a>,
    /// While it schedules the machine.
    link: Option<libbpf_rs::Link>,
    /// What refuses core scheduling.
    _core_guard: Option<libbpf_rs::Link>,
}

impl<'a> Scheduler<'a> {
    /// Loads the object.
    pub(in crate::policies) fn load(
        options: &Options,
        object: &'a mut MaybeUninit<OpenObject>,
    ) -> Result<Scheduler<'a>> {
        let cpus_end = cpus::end()?;
        libbpf::listen(options.verbose);
        let builder = BpfSkelBuilder::default();
        let mut skel = scx_ops_open!(builder, object, prorata_ops, None)
            .context("the BPF object cannot be opened")?;
        let constants = skel.maps.rodata_data.as_mut().context("the object has no constants")?;
        constants.quantum = u64::try_from(options.quantum.as_nanos())?;
        constants.rescue_ns = u64::try_from(options.rescue.as_nanos())?;
        constants.max_tasks = options.max_tasks;
        constants.policy_options = options.policy.options;
        constants.sleepers = options.policy.sleepers.constant();
        constants.recording = options.record.is_some();
        constants.cpus_possible = u32::try_from(libbpf_rs::num_possible_cpus()?)?;
        constants.cpus_end = cpus_end;
        let (domains, cores) = cpus::layout();
        constants.domains = domains.count;
        constants.stays_near = options.locality == Locality::On;
        constants.domain_of_cpu = domains.of_cpu;
        constants.cpus_of_domain = domains.cpus;
        constants.domain_cpus = domains.sets;
        constants.smt = cores.smt;
        constants.core_of_cpu = cores.of_cpu;
        constants.cpus_of_core = cores.cpus;
        let ops = skel.struct_ops.prorata_ops_mut();
        // Which cpus there are ops.init sees, whenever that is: none comes or goes meanwhile.
        ops.hotplug_seq = 0;
        if options.groups == Groups::Off {
            ops.cgroup_init = std::ptr::null_mut();
            ops.cgroup_exit = std::ptr::null_mut();
            ops.cgroup_move = std::ptr::null_mut();
            ops.cgroup_set_weight = std::ptr::null_mut();
        }
        // Kernels have it from 6.19 on.
        if options.groups == Groups::Off
            || !compat::struct_has_field("sched_ext_ops", "cgroup_set_idle")?
        {
            ops.cgroup_set_idle = std::ptr::null_mut();
        }
        ops.flags = *compat::SCX_OPS_ENQ_LAST
            | *compat::SCX_OPS_ENQ_EXITING
            | *compat::SCX_OPS_ENQ_MIGRATION_DISABLED
            | if options.partial { *compat::SCX_OPS_SWITCH_PARTIAL } else { 0 };
        // It is below, where it may fail.
        skel.progs.prorata_refuse_core_scheduling.set_autoattach(false);
        if options.verbose {
            // The verifier tells what each program cost it.
            skel.open_object_mut().progs_mut().for_each(|mut program| {
                program.set_log_level(4);
            });
        }
        let mut skel = scx_ops_load!(skel, prorata_ops, uei).map_err(kernel::explain_load)?;
        let core_guard = match skel.progs.prorata_refuse_core_scheduling.attach() {
            Ok(link) => Some(link),
            // It is nothing to refuse.
            Err(_) if !compat::struct_has_field("task_struct", "core_cookie")? => None,
            Err(error) => return Err(error).context(kernel::NO_CORE_GUARD),
        };
        // scx's own programs.
        skel.attach().map_err(|error| kernel::explain_attach(error.into()))?;
        if let Err(error) = skel.progs.prorata_meet_loader.test_run(ProgramInput::default()) {
            log::warn!("waits for its turn as others: the scheduler could not be told of it: {error}");
        }
        let known_as = skel.maps.bss_data.as_ref().map_or(0, |variables| variables.loader);
        log::debug!("the scheduler knows its loader as process {known_as}");
        Ok(Scheduler { skel, link: None, _core_guard: core_guard })
    }

    /// Runs a program that only objects have whose queues have locks of their own (`bpf/reopen.h`).
    fn run(&self, name: &str, input: ProgramInput<'_>) -> Result<()> {
        let mut programs = self.skel.object().progs_mut();
        let program = programs.find(|program| program.name() == name).expect("the object has it");
        program.test_run(input).with_context(|| format!("{name} cannot be run"))?;
        Ok(())
    }

    /// Until whatever used the policy there has ended.
    fn visit(&self, cpu: u32) -> Result<()> {
        let flags = libbpf_rs::libbpf_sys::BPF_F_TEST_RUN_ON_CPU;
        let visit =
            || self.run("prorata_visit", ProgramInput { cpu, flags, ..Default::default() });
        match visit() {
            Ok(()) => Ok(()),
            // It has gone, and may come back meanwhile.
            Err(_) if !cpus::online()?.contains(&cpu) => Ok(()),
            Err(_) => visit(),
        }
    }
}

impl Loaded for Scheduler<'_> {
    fn attach(&mut self) -> Result<()> {
        let link = self.skel.maps.prorata_ops.attach_struct_ops();
        self.link = Some(link.map_err(|error| kernel::explain_attach(error.into()))?);
        Ok(())
    }

    fn is_over(&self) -> bool {
        uei_exited!(&self.skel, uei)
    }

    fn is_outdated(&self) -> bool {
        self.skel.maps.bss_data.as_ref().expect("the object has variables").is_outdated != 0
    }

    fn close(&mut self) -> Result<()> {
        self.run("prorata_close", ProgramInput::default())?;
        // One that comes from here on finds it closed.
        cpus::online()?.into_iter().try_for_each(|cpu| self.visit(cpu))
    }

    fn reopen(&mut self) -> Result<()> {
        self.run("prorata_reopen", ProgramInput::default())
    }

    fn memory(&self) -> Memory<'_> {
        let variables = self.skel.maps.bss_data.as_ref().expect("the object has variables");
        let slot = &self.skel.maps.rodata_data.as_ref().expect("the object has constants").slot_layout;
        let addresses = Addresses {
            shared: variables.shared_address,
            counts: variables.counts_address,
            events: variables.events_address,
            slots: variables.slots_address,
            tree: variables.tree_address,
            desks: variables.desks_address,
        };
        let slot = slot_layout {
            size: slot.size,
            state: slot.state,
            since_ns: slot.since_ns,
            used_ns: slot.used_ns,
            received_ns: slot.received_ns,
            waited_ns: slot.waited_ns,
        };
        // SAFETY: ops.init stored the addresses, and libbpf mapped the arena that they point into
        // for as long as the skeleton lives; the object says how its slots are laid out.
        unsafe { Memory::new(&addresses, slot) }
    }

    fn cpus(&self) -> u32 {
        self.skel.maps.bss_data.as_ref().expect("the object has variables").cpus_at_first
    }

    fn weight_call(&mut self, mut call: weight_call) -> weight_call {
        call.result = -libc::EIO;
        // SAFETY: the program reads and writes exactly this struct of plain numbers.
        let bytes = unsafe {
            std::slice::from_raw_parts_mut((&raw mut call).cast::<u8>(), size_of_val(&call))
        };
        let input = ProgramInput { context_in: Some(bytes), ..Default::default() };
        // What went wrong, if anything did, is in `result`.
        if let Err(error) = self.skel.progs.prorata_weight_call.test_run(input) {
            log::debug!("a weight cannot be set or read: {error}");
        }
        call
    }

    fn unload(&mut self) -> Result<()> {
        drop(self.link.take());
        uei_report!(&self.skel, uei).map(|_| ())
    }
}
