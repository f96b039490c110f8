//! Results to terminal table, HTML, CSV and JSON
