//! Testbeds: hosts, wires, CPU placement; implements the executor
