//! Whatever bytes claim to be the state of a connection, they are refused or read as they would be
//! written.

#![no_main]

use libfuzzer_sys::fuzz_target;
use linkrate_toe::Connection;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(connection) = Connection::decode(bytes) {
        let again = Connection::decode(&connection.encode());
        assert_eq!(again.as_ref(), Ok(&connection));
        let sent = connection.send_next().wrapping_sub(connection.unacknowledged);
        assert_eq!(sent as usize, connection.sent.len());
    }
});
