//! Perfetto's TrackEvent protobuf, for ui.perfetto.dev: a track for each cpu, with a slice for
//! every segment that a task ran.
//!
//! Perfetto's schema is huge; these are the few messages and fields that a timeline needs, with
//! the numbers of `protos/perfetto/trace/{trace_packet,track_event/*}.proto`.

use std::io::{self, Write};

use super::timehist::Names;
use super::timeline::Segment;
use crate::workload::Workload;

/// Of a `TrackEvent`.
const SLICE_BEGIN: u64 = 1;
const SLICE_END: u64 = 2;
/// `SEQ_INCREMENTAL_STATE_CLEARED`.
const FIRST_OF_SEQUENCE: u64 = 1;
const SEQUENCE: u64 = 1;
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
    // A trace is its packets one after the other.
    let mut write = |packet: Message| out.write_all(&Message::default().message(1, &packet).0);
    write(track(ROOT, "cpus", None).number(13, FIRST_OF_SEQUENCE))?;
    for cpu in 0..workload.machine.cpus as u64 {
        write(track(FIRST_CPU + cpu, &format!("cpu {cpu}"), Some(ROOT)))?;
    }
    let names = Names::new(workload);
    for segment in segments {
        let cpu = FIRST_CPU + segment.cpu as u64;
        let group = workload.groups.iter().zip(workload.ids());
        let group = group.filter(|(_, ids)| ids.contains(&segment.task.0)).map(|(g, _)| &g.name);
        let begin = group.fold(track_event(SLICE_BEGIN, cpu), |event, name| event.text(22, name));
        let begin = begin.text(23, names.of(segment.task.0));
        write(event(segment.start_ns, &begin))?;
        write(event(segment.end_ns, &track_event(SLICE_END, cpu)))?;
    }
    out.flush()
}

/// A `TracePacket` with a `TrackDescriptor`.
fn track(uuid: u64, name: &str, parent_uuid: Option<u64>) -> Message {
    let descriptor = Message::default().number(1, uuid).text(2, name);
    let descriptor =
        parent_uuid.into_iter().fold(descriptor, |message, uuid| message.number(5, uuid));
    Message::default().number(10, SEQUENCE).message(60, &descriptor)
}

/// A `TracePacket` with a `TrackEvent`.
fn event(timestamp_ns: u64, event: &Message) -> Message {
    Message::default().number(8, timestamp_ns).number(10, SEQUENCE).message(11, event)
}

/// A `TrackEvent`.
fn track_event(kind: u64, track_uuid: u64) -> Message {
    Message::default().number(9, kind).number(11, track_uuid)
}

/// A protobuf message, field by field. The libraries for it take longer to build than the policies; the
/// tests read it with one.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    const NUMBER: u64 = 0;
    const BYTES: u64 = 2;

    fn varint(&mut self, mut number: u64) {
        let seven = |number: u64| u8::try_from(number & 0x7f).expect("seven bits");
        while number >= 0x80 {
            self.0.push(seven(number) | 0x80);
            number >>= 7;
        }
        self.0.push(seven(number));
    }

    fn number(mut self, field: u64, number: u64) -> Message {
        self.varint((field << 3) | Message::NUMBER);
        self.varint(number);
        self
    }

    fn text(self, field: u64, text: &str) -> Message {
        self.bytes(field, text.as_bytes())
    }

    fn message(self, field: u64, message: &Message) -> Message {
        self.bytes(field, &message.0)
    }

    fn bytes(mut self, field: u64, bytes: &[u8]) -> Message {
        self.varint((field << 3) | Message::BYTES);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observer::End;
    use crate::outcome::tests::workload;
    use proptest::prelude::*;
    use prorata::TaskId;
    use prost::Message as _;

    #[derive(Clone, PartialEq, prost::Message)]
    struct Trace {
        #[prost(message, repeated, tag = "1")]
        packet: Vec<TracePacket>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    struct TracePacket {
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

    #[derive(Clone, PartialEq, prost::Message)]
    struct TrackDescriptor {
        #[prost(uint64, optional, tag = "1")]
        uuid: Option<u64>,
        #[prost(string, optional, tag = "2")]
        name: Option<String>,
        #[prost(uint64, optional, tag = "5")]
        parent_uuid: Option<u64>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    struct TrackEvent {
        #[prost(int32, optional, tag = "9")]
        r#type: Option<i32>,
        #[prost(uint64, optional, tag = "11")]
        track_uuid: Option<u64>,
        #[prost(string, repeated, tag = "22")]
        categories: Vec<String>,
        #[prost(string, optional, tag = "23")]
        name: Option<String>,
    }

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
        let named: Vec<_> =
            tracks.map(|track| (track.uuid, track.name.as_deref(), track.parent_uuid)).collect();
        assert_eq!(named.len(), 1 + workload().machine.cpus);
        assert_eq!(named[0], (Some(1), Some("cpus"), None));
        assert_eq!(named[2], (Some(3), Some("cpu 1"), Some(1)));
        assert_eq!(trace.packet[0].sequence_flags, Some(1));
        assert!(trace.packet.iter().all(|packet| packet.trusted_packet_sequence_id == Some(1)));
        let events: Vec<_> = trace
            .packet
            .iter()
            .filter_map(|packet| Some((packet.timestamp?, packet.track_event.clone()?)))
            .collect();
        let times: Vec<u64> = events.iter().map(|(at_ns, _)| *at_ns).collect();
        assert_eq!(times, [3, 8, 9, 14]);
        assert!(events.iter().all(|(_, event)| event.track_uuid == Some(3)));
    }

    proptest! {
        #[test]
        fn messages_are_what_a_library_reads(number: u64, text: String) {
            let written = track_event(2, number).text(22, &text).text(22, "").text(23, &text);
            let wanted = TrackEvent {
                r#type: Some(2),
                track_uuid: Some(number),
                categories: vec![text.clone(), String::new()],
                name: Some(text),
            };
            prop_assert_eq!(TrackEvent::decode(written.0.as_slice()), Ok(wanted));
        }
    }
}
