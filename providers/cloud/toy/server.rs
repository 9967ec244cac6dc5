//! gRPC, the server's side: one message there, one or some back.

use crate::{answer::Answer, thing::Toy};
use h2::server::SendResponse;
use http::{HeaderMap, Request, Response};
use prost::bytes::Bytes;
use std::{rc::Rc, sync::Arc};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    task::LocalSet,
};

/// Serves who comes until it is told to end.
pub(crate) async fn serve<S: AsyncRead + AsyncWrite + Unpin + 'static>(
    next: impl AsyncFn() -> Option<S>,
    protocol: u8,
) {
    let toy = Rc::new(Toy::new(protocol));
    let (end, ended) = tokio::sync::watch::channel(false);
    let end = Arc::new(end);
    let local = LocalSet::new();
    let accept = async {
        while let Some(stream) = next().await {
            let (toy, end) = (toy.clone(), end.clone());
            tokio::task::spawn_local(async move {
                let mut builder = h2::server::Builder::new();
                builder.initial_window_size(4 << 20).initial_connection_window_size(16 << 20);
                let Ok(mut connection) = builder.handshake::<_, Bytes>(stream).await else { return };
                while let Some(Ok((request, respond))) = connection.accept().await {
                    let (toy, end) = (toy.clone(), end.clone());
                    tokio::task::spawn_local(async move {
                        let _ = handle(&toy, request, respond, &end).await;
                    });
                }
            });
        }
    };
    let mut ended = ended.clone();
    local
        .run_until(async {
            tokio::select! {
                () = accept => {}
                _ = ended.wait_for(|ended| *ended) => {}
            }
        })
        .await;
}

async fn handle(
    toy: &Toy,
    request: Request<h2::RecvStream>,
    mut respond: SendResponse<Bytes>,
    end: &tokio::sync::watch::Sender<bool>,
) -> Result<(), h2::Error> {
    let path = request.uri().path().to_string();
    let mut body = request.into_body();
    let mut all = Vec::new();
    while let Some(part) = body.data().await {
        let part = part?;
        body.flow_control().release_capacity(part.len())?;
        all.extend_from_slice(&part);
    }
    let answer = toy
        .call(path.rsplit('/').next().unwrap_or_default(), Bytes::from(all.split_off(5.min(all.len()))))
        .await;
    let head = Response::builder().header("content-type", "application/grpc").body(()).unwrap_or_default();
    let mut trailers = HeaderMap::new();
    let (bytes, status) = match answer {
        Answer::Message(bytes) => (frame(&bytes), "0".to_string()),
        // As most servers say nothing: with headers alone.
        Answer::Messages(all) if all.is_empty() => {
            let head =
                Response::builder().header("content-type", "application/grpc").header("grpc-status", "0");
            respond.send_response(head.body(()).unwrap_or_default(), true)?;
            return Ok(());
        }
        Answer::Messages(all) => {
            let all: Vec<Bytes> = all.iter().map(|bytes| frame(bytes)).collect();
            (all.concat().into(), "0".to_string())
        }
        Answer::Status(code, message) => {
            if let Ok(message) = message.parse() {
                trailers.insert("grpc-message", message);
            }
            (Bytes::new(), code.to_string())
        }
        Answer::Garbage => (Bytes::from_static(b"\0\0\0\0\x04\xff\xff\xff\xff"), "0".into()),
        #[expect(clippy::disallowed_methods, reason = "to die without a word is what is asked for")]
        Answer::Death => std::process::exit(9),
        Answer::End => (frame(&[]), "0".into()),
    };
    let is_end = matches!(&*path, "/plugin.GRPCController/Shutdown");
    let mut stream = respond.send_response(head, false)?;
    stream.send_data(bytes, false)?;
    if let Ok(status) = status.parse() {
        trailers.insert("grpc-status", status);
    }
    stream.send_trailers(trailers)?;
    if is_end {
        end.send_replace(true);
    }
    Ok(())
}

fn frame(message: &[u8]) -> Bytes {
    let mut bytes = vec![0];
    bytes.extend((message.len() as u32).to_be_bytes());
    bytes.extend(message);
    bytes.into()
}
