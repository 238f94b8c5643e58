//! Opens a connection: finds the address, connects, does the TLS handshake, logs in, and checks that the server
//! answers.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, ErrorKind, ProtocolVersion, PushInfo, RedisConnectionInfo, RedisError, Value,
};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use super::address::{HostPort, Login};
use super::reply::error_text;
use super::sentinels::Sentinels;
use super::tls::TrustedRoots;

/// The most calls that are queued for the connection's task; further calls wait, within their deadlines.
const CALLS_WAITING_MAX: usize = 4_096;

/// The options that all connections of a client share.
#[derive(Clone, Debug)]
pub(super) struct ConnectOptions {
    pub(super) login: Option<Login>,
    pub(super) db: i64,
    pub(super) trust: Option<TrustedRoots>,
    /// The longest that opening a connection may take.
    pub(super) connect_timeout: Duration,
    /// How long a connection that is checked by `PING` may take to answer before it is given up.
    pub(super) ping_timeout: Duration,
}

/// Which handshake to do after connecting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Handshake {
    /// None.
    None,
    /// Log in. A Sentinel has no databases to select.
    Login,
    /// Log in and select the database.
    LoginAndDb,
}

/// Where to connect to.
#[derive(Debug)]
pub(super) enum ConnectTarget {
    /// A fixed address.
    Address(HostPort),
    /// The master that Sentinels name.
    Master(Arc<Sentinels>),
}

impl ConnectTarget {
    /// Resolves when the target is no longer at `than`.
    pub(super) async fn until_moved_from(&self, than: &HostPort) {
        match self {
            ConnectTarget::Address(_) => std::future::pending().await,
            ConnectTarget::Master(sentinels) => sentinels.until_moved_from(than).await,
        }
    }
}

/// Opens connections to one target.
#[derive(Debug)]
pub(super) struct Connector {
    pub(super) connect_options: Arc<ConnectOptions>,
    pub(super) target: ConnectTarget,
}

/// An open connection, and its address.
pub(super) struct OpenConnection {
    pub(super) connection: MultiplexedConnection,
    pub(super) driver: ConnectionTask,
    pub(super) address: HostPort,
}

/// The future that does the IO of a connection. It must be polled for the connection to work, and ends with it.
pub(super) type ConnectionTask = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

/// Is called with every push message of a connection. It must return at once.
pub(super) type PushHandler = Arc<dyn Fn(PushInfo) + Send + Sync>;

impl Connector {
    /// Opens a connection to a server that answers. With `pushes` it can subscribe.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) async fn open(&self, pushes: Option<&PushHandler>) -> Result<OpenConnection, String> {
        let address = match &self.target {
            ConnectTarget::Address(address) => address.clone(),
            ConnectTarget::Master(sentinels) => sentinels.find().await?,
        };
        let (connection, driver) = self.connect_options.open(&address, Handshake::LoginAndDb, pushes).await?;
        let mut opened = OpenConnection { connection, driver, address };
        if let ConnectTarget::Master(sentinels) = &self.target {
            let checked = is_master(&mut opened, self.connect_options.connect_timeout).await;
            checked.map_err(|why| format!("{}: {why}", opened.address))?;
            sentinels.connected(&opened.address);
        }
        Ok(opened)
    }
}

/// Checks by `ROLE` that the server that Sentinels name is a master: Sentinels may name a server shortly before it
/// becomes the master, or after it ceased to be.
async fn is_master(opened: &mut OpenConnection, connect_timeout: Duration) -> Result<(), String> {
    let command = redis::cmd("ROLE");
    let role = async {
        tokio::select! {
            answer = opened.connection.send_packed_command(&command) => answer.map_err(|error| error_message(&error)),
            () = &mut opened.driver => Err("it closed the connection".to_owned()),
        }
    };
    let answer =
        tokio::time::timeout(connect_timeout, role).await.map_err(|_| no_answer(connect_timeout))??;
    let Value::Array(parts) = answer else {
        // `ROLE` is not permitted or not known here; a write to a replica fails by itself.
        return Ok(());
    };
    match parts.first() {
        Some(Value::BulkString(word)) if word != b"master" => {
            Err("Sentinel names it as the master, but it is a replica".into())
        }
        _ => Ok(()),
    }
}

impl ConnectOptions {
    /// Opens a connection to an address, within the timeout. With `pushes` it uses RESP3, so that it can subscribe;
    /// `pushes` gets every push message.
    pub(super) async fn open(
        &self,
        address: &HostPort,
        handshake: Handshake,
        pushes: Option<&PushHandler>,
    ) -> Result<(MultiplexedConnection, ConnectionTask), String> {
        let opening = async {
            let stream = TcpStream::connect((address.host.as_str(), address.port))
                .await
                .map_err(|error| format!("{address}: {error}"))?;
            stream.set_nodelay(true).map_err(|error| format!("{address}: {error}"))?;
            match &self.trust {
                None => self.handshake_on(stream, handshake, pushes).await,
                Some(trust) => {
                    self.handshake_on(trust.handshake(&address.host, stream).await?, handshake, pushes).await
                }
            }
        };
        tokio::time::timeout(self.connect_timeout, opening)
            .await
            .map_err(|_| format!("{address}: {}", no_answer(self.connect_timeout)))?
    }

    async fn handshake_on<S>(
        &self,
        stream: S,
        handshake: Handshake,
        pushes: Option<&PushHandler>,
    ) -> Result<(MultiplexedConnection, ConnectionTask), String>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let mut info = RedisConnectionInfo::default().set_skip_set_lib_name();
        if handshake == Handshake::LoginAndDb {
            info = info.set_db(self.db);
        }
        if let Some(Login { user, password }) = self.login.as_ref().filter(|_| handshake != Handshake::None) {
            info = info.set_password(password);
            info = user.iter().fold(info, |info, user| info.set_username(user));
        }
        let mut config = AsyncConnectionConfig::new()
            // Callers keep their own deadlines.
            .set_response_timeout(None)
            .set_pipeline_buffer_size(CALLS_WAITING_MAX);
        if let Some(pushes) = pushes.cloned() {
            info = info.set_protocol(ProtocolVersion::RESP3);
            config = config.set_push_sender(move |push| {
                pushes(push);
                Ok::<(), Infallible>(())
            });
        }
        let (connection, driver) = MultiplexedConnection::new_with_config(&info, stream, config)
            .await
            .map_err(|error| error_message(&error))?;
        let mut driver: ConnectionTask = Box::pin(driver);
        let mut pinged = connection.clone();
        let ping = redis::cmd("PING");
        let answer = tokio::select! {
            answer = pinged.send_packed_command(&ping) => answer.map_err(|error| error_message(&error))?,
            () = &mut driver => return Err("it closed the connection".into()),
        };
        match answer {
            // It will close the connection: no password, protected mode, or too many clients.
            Value::ServerError(error) if matches!(error.code(), "NOAUTH" | "DENIED" | "ERR") => {
                Err(error_text(&error))
            }
            // Any other reply shows that it answers, even if it is loading or forbids `PING`.
            _ => Ok((connection, driver)),
        }
    }
}

/// The message of an error of the client library.
pub(super) fn error_message(error: &RedisError) -> String {
    match error.kind() {
        ErrorKind::AuthenticationFailed => {
            "WRONGPASS: it does not accept the user and password of the address".into()
        }
        _ => error.to_string(),
    }
}

pub(super) fn no_answer(connect_timeout: Duration) -> String {
    format!("no answer within {} ms", connect_timeout.as_millis())
}
