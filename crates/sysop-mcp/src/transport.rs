//! Transport to a server. Both kinds have one type, so that what rmcp makes for each type of transport exists once in
//! the binary. The transport drops the late answer to a discovery that was given up: rmcp would take it for a broken
//! handshake.

use futures::future::Either;
use rmcp::RoleClient;
use rmcp::model::{ClientRequest, JsonRpcMessage, RequestId};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::streamable_http_client::StreamableHttpError;
use rmcp::transport::{StreamableHttpClientTransport, Transport};
use sysop_driver::port::CancellationToken;

type StdioTransport = AsyncRwTransport<RoleClient, PipeReader, PipeWriter>;
type PipeReader = tokio::net::unix::pipe::Receiver;
type PipeWriter = tokio::net::unix::pipe::Sender;
type HttpTransport = StreamableHttpClientTransport<reqwest::Client>;

enum Channel {
    Stdio(StdioTransport),
    Http(HttpTransport),
}

pub(crate) struct AnyTransport {
    channel: Channel,
    discovery: Option<RequestId>,
    /// Discovery whose answer did not arrive before `initialize` was sent; `None` once the answer has arrived.
    abandoned: Option<RequestId>,
    discovered_late: CancellationToken,
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
        let transport = AsyncRwTransport::new(stdout, stdin).with_max_line_length(message_bytes_max);
        Self::over(Channel::Stdio(transport))
    }

    pub(crate) fn http(transport: HttpTransport) -> Self {
        Self::over(Channel::Http(transport))
    }

    fn over(channel: Channel) -> Self {
        Self { channel, discovery: None, abandoned: None, discovered_late: CancellationToken::new() }
    }

    /// Returns a token that is canceled once the server has answered a discovery after `initialize` was sent. Such a
    /// server may not know `initialize`.
    pub(crate) fn discovered_late(&self) -> CancellationToken {
        self.discovered_late.clone()
    }

    fn note_request(&mut self, message: &TxJsonRpcMessage<RoleClient>) {
        let JsonRpcMessage::Request(request) = message else { return };
        if matches!(request.request, ClientRequest::DiscoverRequest(_)) {
            self.discovery = Some(request.id.clone());
        } else if matches!(request.request, ClientRequest::InitializeRequest(_)) {
            self.abandoned = self.discovery.take();
        }
    }

    /// Returns true for the answer to a discovery that was given up. An error without an ID is taken for this answer,
    /// because the discovery is the oldest request.
    fn is_late(&mut self, message: &RxJsonRpcMessage<RoleClient>) -> bool {
        let Some(abandoned) = &self.abandoned else { return false };
        // Some servers return a numeric ID as a string.
        let is_of_discovery = |id: &RequestId| id.to_string() == abandoned.to_string();
        let (is_late, is_success) = match message {
            JsonRpcMessage::Response(response) => (is_of_discovery(&response.id), true),
            JsonRpcMessage::Error(error) => (error.id.as_ref().is_none_or(is_of_discovery), false),
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => (false, false),
        };
        if is_late {
            self.abandoned = None;
        }
        if is_late && is_success {
            self.discovered_late.cancel();
        }
        is_late
    }
}

impl Transport<RoleClient> for AnyTransport {
    type Error = TransportError;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.note_request(&item);
        match &mut self.channel {
            Channel::Stdio(transport) => {
                let sending = transport.send(item);
                Either::Left(async { sending.await.map_err(TransportError::Stdio) })
            }
            Channel::Http(transport) => {
                let sending = transport.send(item);
                Either::Right(async { sending.await.map_err(TransportError::Http) })
            }
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let message = match &mut self.channel {
                Channel::Stdio(transport) => transport.receive().await,
                Channel::Http(transport) => transport.receive().await,
            }?;
            if !self.is_late(&message) {
                return Some(message);
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        match &mut self.channel {
            Channel::Stdio(transport) => transport.close().await.map_err(TransportError::Stdio),
            Channel::Http(transport) => transport.close().await.map_err(TransportError::Http),
        }
    }
}
