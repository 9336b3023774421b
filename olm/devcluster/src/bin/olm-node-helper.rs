//! For the tests of the node agent: a pod's first process (their own `main` belongs to the test harness and cannot become
//! one), and a small program to run in pods.

use std::{
    io::{Read as _, Write as _},
    net::TcpListener,
};

fn main() {
    olm_devcluster::node::maybe_run_helper();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let result = match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["serve", port, text] => serve(port, text),
        _ => Err(std::io::Error::other("this program is started by the node agent's tests")),
    };
    if let Err(error) = result {
        eprintln!("error: {error}");
        std::process::exit(2);
    }
}

/// Answers every HTTP request with the text, after the client has sent something.
fn serve(port: &str, text: &str) -> std::io::Result<()> {
    let listener = TcpListener::bind(format!("0.0.0.0:{port}"))?;
    println!("serving {text} on {port}");
    for stream in listener.incoming() {
        let mut stream = stream?;
        let text = text.to_owned();
        std::thread::spawn(move || {
            let mut buffer = [0_u8; 4096];
            if matches!(stream.read(&mut buffer), Ok(length) if length > 0) {
                let length = text.len();
                let _ = write!(
                    stream,
                    "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{text}"
                );
            }
        });
    }
    Ok(())
}
