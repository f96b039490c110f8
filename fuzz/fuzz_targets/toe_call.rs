//! Whatever a program has in its registers and in its memory when it makes a call: the call is read within
//! its bounds, or left to the kernel. An option is passed on within its size, and a wait status is decoded.

#![no_main]

use libfuzzer_sys::fuzz_target;
use linkrate_sys::ptrace_stop::Event;
use linkrate_sys::seccomp::Call;
use linkrate_sys::{descriptors, socket_option};
use linkrate_toe::call::{
    Asked, MAX_ADDRESS, MAX_OPTION, OptionName, address, address_bytes, room,
};

const CALLS: [Call; 9] = [
    Call::Connect,
    Call::Accept,
    Call::Accept4,
    Call::OwnName,
    Call::FarName,
    Call::GetOption,
    Call::SetOption,
    Call::Duplicate,
    Call::MakeSet,
];

fuzz_target!(|bytes: &[u8]| {
    let Some((&[number, ref registers @ ..], memory)) = bytes.split_first_chunk::<49>() else {
        return;
    };
    let mut arguments = [0; 6];
    for (argument, bytes) in arguments.iter_mut().zip(registers.chunks_exact(8)) {
        *argument = u64::from_le_bytes(bytes.try_into().unwrap_or_default());
    }
    let call = CALLS[usize::from(number) % CALLS.len()];
    match Asked::of(call, &arguments) {
        Some(Asked::Connect { length, .. }) => assert!(length <= MAX_ADDRESS),
        Some(Asked::SetOption { option, length, .. }) => {
            assert!(length <= MAX_OPTION);
            expect_plain(option);
        }
        Some(Asked::GetOption { option, .. }) => expect_plain(option),
        _ => {}
    }
    if let Some((status, _)) = memory.split_first_chunk::<4>()
        && let Event::Signal(signal) = Event::of(i32::from_le_bytes(*status))
    {
        assert!((0..256).contains(&signal));
    }
    if let Some(read) = address(memory) {
        let written = address_bytes(&read);
        assert!(written.len() <= memory.len());
        assert_eq!(address(&written), Some(read));
    }
    if let Some((said, value)) = memory.split_first_chunk::<4>()
        && let Some(room) = room(*said, value.len())
    {
        assert!(room <= value.len());
    }
    // what `/proc` shows of a program's epoll sets
    for line in String::from_utf8_lossy(memory).lines() {
        if let Some(of) = descriptors::registration(3, line) {
            assert_eq!(of.set, 3);
        }
    }
});

/// An option that is passed on is none whose value has an address, a descriptor or another length.
fn expect_plain(OptionName { level, name }: OptionName) {
    let Some(size) = socket_option::size(level, name) else { return };
    assert!((1..=MAX_OPTION).contains(&size));
    assert!([0, 1, 6, 41].contains(&level), "{level}");
    // filters and their lock, marks, devices and forced buffers; repair, keys, queues and zero copy
    let not = match level {
        1 => &[1, 25, 26, 27, 32, 33, 36, 44, 50, 51, 52, 60][..],
        6 => &[14, 19, 20, 21, 22, 24, 29, 31, 32, 35, 36, 38][..],
        _ => &[],
    };
    assert!(!not.contains(&name) && (level == 1 || level == 6 || name != 64), "{level} {name}");
}
