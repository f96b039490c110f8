//! Whatever a program has in its registers and in its memory when it makes a call: the call is read within
//! its bounds, or left to the kernel.

#![no_main]

use libfuzzer_sys::fuzz_target;
use linkrate_sys::descriptors;
use linkrate_sys::seccomp::Call;
use linkrate_toe::call::{Asked, MAX_ADDRESS, MAX_OPTION, address, address_bytes, room};

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
        Some(Asked::SetOption { length, .. }) => assert!(length <= MAX_OPTION),
        _ => {}
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
