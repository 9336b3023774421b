//! The caller's token for a Service behind the API server's proxy, which removes `Authorization`.

use http::{HeaderName, HeaderValue, Request, header};

/// A request with this header and the value [`FORWARD`] carries the caller's bearer token in it, if the
/// client has one. Send it only to a Service that is trusted with the token. Not filled in for connections
/// through an HTTP proxy.
pub const FORWARDED_AUTHORIZATION: HeaderName = HeaderName::from_static("x-olm-authorization");
/// See [`FORWARDED_AUTHORIZATION`].
pub const FORWARD: HeaderValue = HeaderValue::from_static("forward");

/// Runs after the authentication layer, which sets `Authorization`.
pub(crate) fn token<B>(mut request: Request<B>) -> Request<B> {
    if request.headers().get(FORWARDED_AUTHORIZATION) == Some(&FORWARD) {
        let token = request.headers().get(header::AUTHORIZATION).cloned();
        match token {
            Some(token) => request.headers_mut().insert(FORWARDED_AUTHORIZATION, token),
            None => request.headers_mut().remove(FORWARDED_AUTHORIZATION),
        };
    }
    request
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_is_forwarded_only_on_request() {
        let request = |asks: bool, token: bool| {
            let mut request = Request::get("/");
            if asks {
                request = request.header(FORWARDED_AUTHORIZATION, FORWARD);
            }
            if token {
                request = request.header(header::AUTHORIZATION, "Bearer secret");
            }
            let sent = super::token(request.body(()).unwrap());
            sent.headers().get(FORWARDED_AUTHORIZATION).map(|value| value.to_str().unwrap().to_owned())
        };
        assert_eq!(request(true, true).as_deref(), Some("Bearer secret"));
        assert_eq!(request(true, false), None);
        assert_eq!(request(false, true), None);
    }
}
