//! The child process: loads the compiler, serves requests from standard input until it closes.

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Instant;

use super::protocol::{Compiled, Failure, Opened, Reply, Request, WireDevice, receive, send};
use crate::plugin::{Plugin, PluginTopology};
use crate::shape::WireShape;
use crate::{Code, CompileOptions, Error, Program, Result, Topology};

/// Ends this process at once when `input` does, whatever its other threads do: a child that so watches a pipe from its
/// parent does not outlive it, even when the parent is killed.
pub fn end_with(mut input: impl Read + Send + 'static) -> io::Result<()> {
    let watch = move || {
        let mut bytes = [0; 64];
        while !matches!(input.read(&mut bytes), Ok(0) | Err(_)) {}
        end();
    };
    std::thread::Builder::new()
        .name("end-with-parent".into())
        .spawn(watch)?;
    Ok(())
}

/// Ends the process with no exit handlers: those of a library that is at work in another thread may wait for it.
fn end() -> ! {
    // SAFETY: it takes a number and does not return.
    unsafe { libc::_exit(1) }
}

/// Receives requests in a thread of its own, so that the end of `input` is noticed while one is being served, and ends
/// the process: nobody is there to take the answer.
fn requests(mut input: impl Read + Send + 'static) -> io::Result<(Requests, Arc<AtomicUsize>)> {
    let (sender, requests) = mpsc::channel();
    let unanswered = Arc::new(AtomicUsize::new(0));
    let count = unanswered.clone();
    let listen = move || {
        while let Some(request) = receive::<Request>(&mut input).transpose() {
            count.fetch_add(1, Ordering::SeqCst);
            let last = request.is_err();
            if sender.send(request).is_err() || last {
                return;
            }
        }
        if count.load(Ordering::SeqCst) > 0 {
            end();
        }
    };
    std::thread::Builder::new()
        .name("requests".into())
        .spawn(listen)?;
    Ok((requests, unanswered))
}

type Requests = mpsc::Receiver<io::Result<Request>>;

/// Serves requests on `input` and `output` until `input` ends; when it ends before a request is answered, so does the
/// process. The process must have been started with [`crate::platform::AOT_ENVIRONMENT`]; nothing else may write to
/// `output`.
pub fn serve(input: impl Read + Send + 'static, output: &mut impl Write) -> io::Result<()> {
    let (requests, unanswered) = requests(input)?;
    let mut topology = None;
    for request in requests {
        let request = request?;
        let reply = match request {
            Request::Open {
                plugin,
                topology: name,
            } => open(&plugin, &name).map(|(made, opened)| {
                topology = Some(made);
                Reply::Opened(Box::new(opened))
            }),
            Request::Compile {
                code,
                format,
                options,
            } => match &topology {
                Some(topology) => {
                    compile(topology, &code, &format, &options).map(|c| Reply::Compiled(Box::new(c)))
                }
                None => Err(Error::argument("compile", "no topology was opened")),
            },
        };
        send(
            output,
            &reply.unwrap_or_else(|error| Reply::Failed(failure(&error))),
        )?;
        unanswered.fetch_sub(1, Ordering::SeqCst);
    }
    Ok(())
}

fn failure(error: &Error) -> Failure {
    let (call, message) = match error {
        Error::Plugin { call, message, .. } => (*call, message.clone()),
        other => (
            other.call().unwrap_or("ahead-of-time compiler"),
            other.to_string(),
        ),
    };
    Failure {
        call: call.to_owned(),
        code: error.code(),
        message,
    }
}

fn json<T: serde::Serialize>(value: &T) -> Result<String> {
    serde_json::to_string(value).map_err(|e| Error::Worker { what: e.to_string() })
}

fn open(plugin: &str, name: &str) -> Result<(PluginTopology, Opened)> {
    let topology = PluginTopology::by_name(Plugin::load(plugin)?, name, &[])?;
    let devices = topology
        .devices()
        .iter()
        .map(WireDevice::new)
        .collect::<serde_json::Result<_>>();
    let opened = Opened {
        platform_name: topology.platform_name().to_owned(),
        platform_version: topology.platform_version().to_owned(),
        devices: devices.map_err(|e| Error::Worker { what: e.to_string() })?,
        attributes: json(&topology.attributes().unwrap_or_default())?,
        fingerprint: topology.fingerprint()?,
        serialized: topology.serialize()?,
    };
    Ok((topology, opened))
}

fn compile(topology: &PluginTopology, code: &[u8], format: &str, options: &[u8]) -> Result<Compiled> {
    let options = CompileOptions::decode(options).map_err(|e| Error::Plugin {
        call: "PJRT_Compile",
        code: Code::InvalidArgument,
        message: e.to_string(),
    })?;
    let start = Instant::now();
    let executable = topology.compile(&Program { code, format }, &options)?;
    let seconds = start.elapsed().as_secs_f64();
    let program = executable.optimized_program()?;
    let (replicas, partitions) = executable.devices_shape();
    let wire = |shapes: &[crate::Shape]| shapes.iter().map(WireShape::from).collect();
    Ok(Compiled {
        name: executable.name().to_owned(),
        replicas,
        partitions,
        parameters: executable.parameters()?.map(wire),
        results: wire(executable.results()?),
        cost: json(&executable.cost_analysis()?)?,
        memory: executable.memory_stats()?,
        code_size: executable.code_size()?,
        fingerprint: executable.fingerprint()?,
        program_format: program.format,
        program: program.code,
        layouts: executable.layouts().map_err(|e| failure(&e)),
        memory_kinds: executable.result_memory_kinds().map_err(|e| failure(&e)),
        serialized: executable.serialize()?,
        seconds,
    })
}
