//! Transport to a server. Both kinds have one type, so that what rmcp makes for each type of transport exists once in the
//! binary. It decides nothing.

use futures::future::Either;
use rmcp::RoleClient;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::streamable_http_client::StreamableHttpError;
use rmcp::transport::{StreamableHttpClientTransport, Transport};

type StdioTransport = AsyncRwTransport<RoleClient, PipeReader, PipeWriter>;
type PipeReader = tokio::net::unix::pipe::Receiver;
type PipeWriter = tokio::net::unix::pipe::Sender;
type HttpTransport = StreamableHttpClientTransport<reqwest::Client>;

pub(crate) enum AnyTransport {
    Stdio(StdioTransport),
    Http(HttpTransport),
}

/// Failure of a transport. Its source is the error of rmcp, in which rmcp looks for a demand for authorization.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TransportError {
    #[error("{0}")]
    Stdio(#[source] std::io::Error),
    #[error("{0}")]
    Http(#[source] StreamableHttpError<reqwest::Error>),
}

impl AnyTransport {
    /// Creates the transport for a program. Longer messages of the program are dropped.
    pub(crate) fn stdio(stdout: PipeReader, stdin: PipeWriter, message_bytes_max: usize) -> Self {
        Self::Stdio(AsyncRwTransport::new(stdout, stdin).with_max_line_length(message_bytes_max))
    }
}

impl Transport<RoleClient> for AnyTransport {
    type Error = TransportError;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        match self {
            Self::Stdio(transport) => {
                let sending = transport.send(item);
                Either::Left(async { sending.await.map_err(TransportError::Stdio) })
            }
            Self::Http(transport) => {
                let sending = transport.send(item);
                Either::Right(async { sending.await.map_err(TransportError::Http) })
            }
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        match self {
            Self::Stdio(transport) => transport.receive().await,
            Self::Http(transport) => transport.receive().await,
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        match self {
            Self::Stdio(transport) => transport.close().await.map_err(TransportError::Stdio),
            Self::Http(transport) => transport.close().await.map_err(TransportError::Http),
        }
    }
}
