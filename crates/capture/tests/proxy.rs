//! The proxy between a client and a server that says no more than it must.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use pgassay_capture::format::event::{EndReason, Event, What};
use pgassay_capture::proxy::{Proxy, Selection, Settings, Target};
use pgassay_capture::store::reader::Capture;
use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};

const ANY: (Ipv4Addr, u16) = (Ipv4Addr::LOCALHOST, 0);
const IDLE: Duration = Duration::from_millis(300);
const STARTUP: &[u8] = b"\0\0\0\x10\0\x03\0\0user\0u\0\0";

fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("pgassay-proxy-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    folder
}

fn settings(folder: &Path, server: &TcpListener) -> Settings {
    Settings {
        listen: SocketAddr::from(ANY),
        target: Target::Tcp(server.local_addr().unwrap()),
        server_tls: None,
        client_tls: None,
        folder: folder.to_owned(),
        keeps_copy_data: true,
        selection: Selection::default(),
        queue_bytes_max: 1 << 20,
    }
}

/// AuthenticationOk and ReadyForQuery to one client.
fn serve(listener: &TcpListener) {
    let (mut client, _) = listener.accept().unwrap();
    let mut startup = [0; 16];
    client.read_exact(&mut startup).unwrap();
    client.write_all(b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I").unwrap();
    // Until the proxy goes.
    let _ = client.read(&mut startup);
}

#[test]
fn a_session_ends_when_its_client_goes_and_not_when_it_last_said_something() {
    let folder = folder("idle");
    let listener = TcpListener::bind(ANY).unwrap();
    let proxy = Proxy::start(settings(&folder, &listener)).unwrap();
    let (address, stopper) = (proxy.address().unwrap(), proxy.stopper());
    let server = thread::spawn(move || serve(&listener));
    let running = thread::spawn(move || proxy.run(|_| ()).unwrap());
    let mut client = TcpStream::connect(address).unwrap();
    client.write_all(STARTUP).unwrap();
    let mut answer = [0; 15];
    client.read_exact(&mut answer).unwrap();
    thread::sleep(IDLE);
    drop(client);
    server.join().unwrap();
    stopper.stop();
    assert_eq!(running.join().unwrap().sessions, 1);
    let events: Vec<Event> = Capture::open(&folder)
        .unwrap()
        .events()
        .unwrap()
        .map(Result::unwrap)
        .collect();
    let ready = events.iter().find(|event| event.what == What::Ready).unwrap();
    let end = events.last().unwrap();
    assert!(matches!(end.what, What::End(end) if end.reason == EndReason::ClientLost));
    assert!(u128::from(end.at_ns - ready.at_ns) >= IDLE.as_nanos());
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_server_that_goes_before_tls_begins_is_not_taken_for_one_without() {
    for (answer, said) in [(&b"N"[..], "sslmode=disable"), (&b""[..], "did not answer")] {
        let folder = folder("tls");
        let listener = TcpListener::bind(ANY).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(RootCertStore::empty())
            .with_no_client_auth();
        let mut settings = settings(&folder, &listener);
        settings.server_tls = Some((Arc::new(config), ServerName::try_from("localhost").unwrap()));
        let proxy = Proxy::start(settings).unwrap();
        let (address, stopper) = (proxy.address().unwrap(), proxy.stopper());
        let server = thread::spawn(move || {
            let (mut proxy, _) = listener.accept().unwrap();
            let mut request = [0; 8];
            proxy.read_exact(&mut request).unwrap();
            proxy.write_all(answer).unwrap();
        });
        let running = thread::spawn(move || proxy.run(|_| ()).unwrap());
        let mut client = TcpStream::connect(address).unwrap();
        client.write_all(STARTUP).unwrap();
        let mut told = Vec::new();
        client.read_to_end(&mut told).unwrap();
        assert!(String::from_utf8_lossy(&told).contains(said), "{told:?}");
        server.join().unwrap();
        stopper.stop();
        running.join().unwrap();
        fs::remove_dir_all(&folder).unwrap();
    }
}
