//! `linkrate netperf`

use clap::Args;

/// Options as netperf has them; those of one test are behind `--`.
#[derive(Debug, Args)]
#[command(after_help = "Options of all tests:
  -H HOST           host of the netserver, or of `linkrate serve` [default: localhost]
  -p PORT           its port [default: 12865]
  -t TEST           TCP_STREAM, TCP_MAERTS, TCP_SENDFILE, TCP_RR, TCP_CRR, TCP_CC, UDP_STREAM,
                    UDP_RR, OMNI [default: TCP_STREAM]; TCP_MSS, LOC_CPU, REM_CPU only answer
  -l LENGTH         seconds, or minus bytes or transactions [default: 10]
  -c, -C            measure local (-c) and remote (-C) CPU utilization
  -D SECONDS        results while a test lasts
  -I 95|99[,WIDTH]  repeat until the confidence interval is this narrow: full width, per cent
  -i MAX[,MIN]      maximum and minimum number of tests of -I [default: 10,3]
  -T LOCAL,REMOTE   CPUs of both programs
  -Y LOCAL,REMOTE   type of service: a number, or a name such as EF, CS5, AF21
  -f UNIT           k, m, g (bit/s), K, M, G (bytes/s) [default: m]
  -P 0|1            headings off or on; -v 0|1: one number, or lines
  -j                latencies
  -k, -o, -O [NAMES]  results by their names: pairs, with commas, or in columns

Options of one test, behind --:
  -s, -S SEND,RECV  local and remote socket buffers
  -m, -M BYTES      local send size, remote receive size
  -r REQUEST,RESPONSE  bytes of transactions [default: 1,1]
  -b NUMBER         requests outstanding beside the first
  -D                TCP_NODELAY
  -K LOCAL,REMOTE   congestion control
  -P LOCAL,REMOTE   ports of the data connection; -L ADDRESS: its local address
  -R 0|1            whether packets may go by a router [default: 1, and 0 with UDP_STREAM]
  -e SECONDS        UDP_RR: after a loss, wait this long and continue
  -T tcp|udp, -d send|recv|rr, -c   the test of OMNI; -c: a connection for each request
  -k, -o, -O        as above

Started under the name netperf, linkrate takes these options at once. Notes on
standard error name results of netperf that are wrong.")]
pub struct NetperfArgs {
    /// Options of netperf
    #[arg(value_name = "OPTIONS", trailing_var_arg = true, allow_hyphen_values = true)]
    pub words: Vec<String>,
}
