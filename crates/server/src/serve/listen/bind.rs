//! Opens the listeners: all of them, or none.

use std::io;
use std::net::{SocketAddr, TcpListener};

use socket2::{Domain, Socket, Type};

use crate::bounds::LISTEN_BACKLOG;
use crate::settings::{Listener, Settings};

/// An open listener and its address.
#[derive(Debug)]
pub(crate) struct BoundListener {
    pub(crate) listener: Listener,
    pub(crate) address: SocketAddr,
    pub(crate) socket: TcpListener,
}

/// Why a listener cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("{name}: {failure}; choose another address with --{name} or TIDEGATE_{variable}, or `off`",
    name = .listener.name(), variable = .listener.name().to_uppercase())]
pub(crate) struct BindError {
    listener: Listener,
    failure: BindFailure,
}

#[derive(Debug, thiserror::Error)]
enum BindFailure {
    #[error("{0} is in use by another program, perhaps another tidegate (`ss -ltnp 'sport = :{port}'` shows which)", port = .0.port())]
    Taken(SocketAddr),
    #[error("{0} is also the address of {other}", other = .1.name())]
    Twice(SocketAddr, Listener),
    #[error("no permission to listen on {0}: ports below 1024 need CAP_NET_BIND_SERVICE")]
    Forbidden(SocketAddr),
    #[error("{0} is not an address of this machine")]
    Elsewhere(SocketAddr),
    #[error("cannot listen on {0}: {1}")]
    Other(SocketAddr, io::Error),
}

/// Opens every listener that the settings turn on. If one cannot be opened, none stays open.
///
/// # Errors
/// The first listener that cannot be opened, and why.
pub(crate) fn bind(settings: &Settings) -> Result<Vec<BoundListener>, BindError> {
    let mut bound: Vec<BoundListener> = Vec::new();
    for listener in Listener::ALL {
        let Some(wanted) = settings.address(listener) else { continue };
        let opened = open(wanted).and_then(|socket| Ok((socket.local_addr()?, socket)));
        let (address, socket) = opened.map_err(|error| {
            let other = bound.iter().find(|other| other.address == wanted).map(|other| other.listener);
            BindError { listener, failure: failure(wanted, error, other) }
        })?;
        bound.push(BoundListener { listener, address, socket });
    }
    Ok(bound)
}

fn open(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    if address.is_ipv6() {
        // `[::]` accepts IPv4 too; IPv4-mapped addresses are converted where connections are accepted.
        socket.set_only_v6(false)?;
    }
    // SO_REUSEADDR lets a restart bind while old connections are in TIME_WAIT. Unlike SO_REUSEPORT, it does not allow
    // two listeners on one port.
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(LISTEN_BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

fn failure(address: SocketAddr, error: io::Error, other: Option<Listener>) -> BindFailure {
    match (error.kind(), other) {
        (io::ErrorKind::AddrInUse, Some(other)) => BindFailure::Twice(address, other),
        (io::ErrorKind::AddrInUse, None) => BindFailure::Taken(address),
        (io::ErrorKind::PermissionDenied, _) => BindFailure::Forbidden(address),
        (io::ErrorKind::AddrNotAvailable, _) => BindFailure::Elsewhere(address),
        _ => BindFailure::Other(address, error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(http: &str, grpc: &str) -> Settings {
        let parse = |text: &str| Some(text.parse().unwrap());
        Settings { listen: [parse(http), parse(grpc), None, None], ..Settings::default() }
    }

    #[test]
    fn any_free_port_will_do() {
        let bound = bind(&settings("127.0.0.1:0", "[::1]:0")).unwrap();
        assert_eq!(bound.len(), 2);
        assert!(bound.iter().all(|bound| bound.address.port() != 0));
    }

    #[test]
    fn a_port_that_is_taken_is_told_and_nothing_stays_open() {
        let theirs = TcpListener::bind("127.0.0.1:0").unwrap();
        let taken = theirs.local_addr().unwrap();
        let error = bind(&settings("127.0.0.1:0", &taken.to_string())).unwrap_err().to_string();
        assert!(error.starts_with(&format!("grpc: {taken} is in use by another program")), "{error}");
        assert!(error.contains("--grpc or TIDEGATE_GRPC"), "{error}");
    }

    #[test]
    fn two_listeners_need_two_addresses() {
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        let error = bind(&settings(&free, &free)).unwrap_err().to_string();
        assert!(error.contains("is also the address of http"), "{error}");
    }

    #[test]
    fn an_address_of_another_machine_is_told() {
        let error = bind(&settings("192.0.2.1:8080", "127.0.0.1:0")).unwrap_err().to_string();
        assert!(error.contains("not an address of this machine"), "{error}");
    }
}
