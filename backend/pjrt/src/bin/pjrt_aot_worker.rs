//! The ahead-of-time compiler's child process, for programs that are not Python.

use std::io;

fn main() -> io::Result<()> {
    pjrt::aot::worker::serve(io::stdin(), &mut io::stdout().lock())
}
