//! For the tests of the node agent: a pod's init process (their own `main` belongs to the test harness and
//! cannot become one), and a small program to run in pods.

use std::{
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
};

fn main() {
    olm_devcluster_node::maybe_run_helper();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let result = match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["serve", port, text] => serve(port, text),
        _ => Err(std::io::Error::other("this program is only for the tests of the node agent")),
    };
    if let Err(error) = result {
        eprintln!("error: {error}");
        std::process::exit(2);
    }
}

/// Responds to every HTTP request with the text.
fn serve(port: &str, text: &str) -> std::io::Result<()> {
    let listener = TcpListener::bind(format!("0.0.0.0:{port}"))?;
    println!("serving {text} on {port}");
    for stream in listener.incoming() {
        let stream = stream?;
        let length = text.len();
        let answer =
            format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{text}");
        std::thread::spawn(move || {
            // A client that disconnects loses only its own response.
            let _ = respond(stream, &answer);
        });
    }
    Ok(())
}

/// Reads the whole head first: closing a socket with unread data resets it, and the response may be lost.
fn respond(mut stream: TcpStream, answer: &str) -> std::io::Result<()> {
    let mut head = Vec::new();
    let mut buffer = [0_u8; 4096];
    while !head.ends_with(b"\r\n\r\n") {
        let length = stream.read(&mut buffer)?;
        if length == 0 {
            return Ok(());
        }
        head.extend_from_slice(&buffer[..length]);
    }
    stream.write_all(answer.as_bytes())
}
