//! Serves the metrics of a watch.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, anyhow};
use tiny_http::{Header, Method, Request, Response};

use whyspike::report::prometheus::CONTENT_TYPE;

/// A server that answers with the text that was published last.
pub(super) struct Server {
    text: Arc<Mutex<String>>,
    address: SocketAddr,
}

impl Server {
    /// Listens at an address; port 0 takes a free one.
    pub(super) fn start(address: &str) -> anyhow::Result<Self> {
        let failed =
            || format!("--metrics {address}: give an address and a port, such as 127.0.0.1:9464");
        let server = tiny_http::Server::http(address)
            .map_err(|e| anyhow!("{e}"))
            .with_context(failed)?;
        let bound = server.server_addr().to_ip().with_context(failed)?;
        let text = Arc::new(Mutex::new(String::new()));
        let shared = Arc::clone(&text);
        std::thread::spawn(move || {
            for request in server.incoming_requests() {
                answer(request, &shared);
            }
        });
        Ok(Self {
            text,
            address: bound,
        })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn publish(&self, text: String) {
        *self.text.lock().unwrap_or_else(PoisonError::into_inner) = text;
    }
}

/// One that hangs up early is no concern.
fn answer(request: Request, text: &Mutex<String>) {
    let path = request.url().split('?').next().unwrap_or("");
    let known = path == "/metrics" && matches!(request.method(), Method::Get | Method::Head);
    let _ = if known {
        let body = text.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut response = Response::from_string(body);
        if let Ok(kind) = Header::from_bytes("Content-Type", CONTENT_TYPE) {
            response.add_header(kind);
        }
        request.respond(response)
    } else {
        request.respond(Response::from_string("see /metrics\n").with_status_code(404))
    };
}
