//! Perfetto's TrackEvent protobuf, for ui.perfetto.dev: a track for each cpu, with a slice for
//! every segment that a task ran.
//!
//! Perfetto's schema is huge; these are the few messages and fields that a timeline needs, with
//! the numbers of `protos/perfetto/trace/{trace_packet,track_event/*}.proto`.

use std::io::{self, Write};

use prost::Message;

use super::timehist::Names;
use super::timeline::Segment;
use crate::workload::Workload;

#[derive(Clone, PartialEq, Message)]
struct Trace {
    #[prost(message, repeated, tag = "1")]
    packet: Vec<TracePacket>,
}

#[derive(Clone, PartialEq, Message)]
struct TracePacket {
    /// Nanoseconds.
    #[prost(uint64, optional, tag = "8")]
    timestamp: Option<u64>,
    #[prost(uint32, optional, tag = "10")]
    trusted_packet_sequence_id: Option<u32>,
    #[prost(message, optional, tag = "11")]
    track_event: Option<TrackEvent>,
    #[prost(uint32, optional, tag = "13")]
    sequence_flags: Option<u32>,
    #[prost(message, optional, tag = "60")]
    track_descriptor: Option<TrackDescriptor>,
}

#[derive(Clone, PartialEq, Message)]
struct TrackDescriptor {
    #[prost(uint64, optional, tag = "1")]
    uuid: Option<u64>,
    #[prost(string, optional, tag = "2")]
    name: Option<String>,
    #[prost(uint64, optional, tag = "5")]
    parent_uuid: Option<u64>,
}

#[derive(Clone, PartialEq, Message)]
struct TrackEvent {
    /// 1: a slice begins, 2: it ends.
    #[prost(int32, optional, tag = "9")]
    r#type: Option<i32>,
    #[prost(uint64, optional, tag = "11")]
    track_uuid: Option<u64>,
    #[prost(string, repeated, tag = "22")]
    categories: Vec<String>,
    #[prost(string, optional, tag = "23")]
    name: Option<String>,
}

const SLICE_BEGIN: i32 = 1;
const SLICE_END: i32 = 2;
/// `SEQ_INCREMENTAL_STATE_CLEARED`.
const FIRST_OF_SEQUENCE: u32 = 1;
const SEQUENCE: u32 = 1;
const ROOT: u64 = 1;
/// Uuids of the cpus' tracks come after the root's.
const FIRST_CPU: u64 = ROOT + 1;

/// Writes `segments`, which are in the order of their starts, to `out`.
///
/// # Errors
/// When `out` cannot be written.
pub fn write_perfetto(
    workload: &Workload,
    segments: &[Segment],
    mut out: impl Write,
) -> io::Result<()> {
    let mut write = |packet: TracePacket| {
        // A trace is its packets one after the other.
        out.write_all(&Trace { packet: vec![packet] }.encode_to_vec())
    };
    let root = track(ROOT, "cpus".into(), None);
    write(TracePacket { sequence_flags: Some(FIRST_OF_SEQUENCE), ..root })?;
    for cpu in 0..workload.machine.cpus as u64 {
        write(track(FIRST_CPU + cpu, format!("cpu {cpu}"), Some(ROOT)))?;
    }
    let names = Names::new(workload);
    for segment in segments {
        let cpu = FIRST_CPU + segment.cpu as u64;
        let group = workload.groups.iter().zip(workload.ids());
        let group = group.filter(|(_, ids)| ids.contains(&segment.task.0)).map(|(g, _)| &g.name);
        let begin = TrackEvent {
            r#type: Some(SLICE_BEGIN),
            track_uuid: Some(cpu),
            categories: group.cloned().collect(),
            name: Some(names.of(segment.task.0).to_string()),
        };
        let end = TrackEvent {
            r#type: Some(SLICE_END),
            track_uuid: Some(cpu),
            categories: Vec::new(),
            name: None,
        };
        write(event(segment.start_ns, begin))?;
        write(event(segment.end_ns, end))?;
    }
    out.flush()
}

fn track(uuid: u64, name: String, parent_uuid: Option<u64>) -> TracePacket {
    let descriptor = TrackDescriptor { uuid: Some(uuid), name: Some(name), parent_uuid };
    TracePacket {
        trusted_packet_sequence_id: Some(SEQUENCE),
        track_descriptor: Some(descriptor),
        ..TracePacket::default()
    }
}

fn event(timestamp: u64, event: TrackEvent) -> TracePacket {
    TracePacket {
        timestamp: Some(timestamp),
        trusted_packet_sequence_id: Some(SEQUENCE),
        track_event: Some(event),
        ..TracePacket::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observer::End;
    use crate::outcome::tests::workload;
    use prorata::TaskId;

    #[test]
    fn a_trace_has_a_slice_for_every_segment() {
        let segment = |start_ns| Segment {
            task: TaskId(1),
            cpu: 1,
            start_ns,
            end_ns: start_ns + 5,
            off_cpu_ns: 0,
            delay_ns: 0,
            end: End::Preempted,
        };
        let mut bytes = Vec::new();
        write_perfetto(&workload(), &[segment(3), segment(9)], &mut bytes).expect("written");
        let trace = Trace::decode(bytes.as_slice()).expect("a trace");
        let tracks = trace.packet.iter().filter_map(|packet| packet.track_descriptor.as_ref());
        assert_eq!(tracks.count(), 1 + workload().machine.cpus);
        let events: Vec<_> = trace
            .packet
            .iter()
            .filter_map(|packet| Some((packet.timestamp?, packet.track_event.clone()?)))
            .collect();
        let times: Vec<u64> = events.iter().map(|(at_ns, _)| *at_ns).collect();
        assert_eq!(times, [3, 8, 9, 14]);
        assert!(events.iter().all(|(_, event)| event.track_uuid == Some(3)));
    }
}
