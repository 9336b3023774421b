//! Published vectors, and forged tokens.

use super::*;

const BILBO: &str = r#"{"kty":"RSA","kid":"bilbo.baggins@hobbiton.example","use":"sig","e":"AQAB",
"n":"n4EPtAOCc9AlkeQHPzHStgAbgs7bTZLwUBZdR8_KuKPEHLd4rHVTeT-O-XV2jRojdNhxJWTDvNd7nqQ0VEiZQHz_AJmSCpMaJMRBSFKrKb2wqVwGU_NsYOYL-QtiWN2lbzcEe6XC0dApr5ydQLrHqkHHig3RBordaZ6Aj-oBHqFEHYpPe7Tpe-OfVfHd1E6cS6M1FZcD1NNLYD5lFHpPI9bTwJlsde3uhGqC0ZCuEHg8lhzwOHrtIQbS0FVbb9k3-tVTU4fg_3L_vniUFAKwuCLqKnS2BYwdq_mzSnbLY7h_qixoR7jig3__kRhuaxwUkRz5iaiQkqgc5gHdrNP5zw"}"#;
const RSA_2048: &str = r#"{"kty":"RSA","e":"AQAB",
"n":"ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ"}"#;
const P256: &str = r#"{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}"#;
const ED25519: &str = r#"{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}"#;
const HMAC: &str = r#"{"kty":"oct","k":"AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow"}"#;

/// The payload of the examples of RFC 7515 and RFC 7519.
const JOE: &str =
    "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ";
const FRODO: &str = "SXTigJlzIGEgZGFuZ2Vyb3VzIGJ1c2luZXNzLCBGcm9kbywgZ29pbmcgb3V0IHlvdXIgZG9vci4gWW91IHN0ZXAgb250byB0aGUgcm9hZCwgYW5kIGlmIHlvdSBkb24ndCBrZWVwIHlvdXIgZmVldCwgdGhlcmXigJlzIG5vIGtub3dpbmcgd2hlcmUgeW91IG1pZ2h0IGJlIHN3ZXB0IG9mZiB0by4";

/// Source, key, header, payload, signature.
const ACCEPTED: [(&str, &str, &str, &str, &str); 5] = [
    (
        "RFC 7515 A.2, RS256",
        RSA_2048,
        "eyJhbGciOiJSUzI1NiJ9",
        JOE,
        "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw",
    ),
    (
        "RFC 7515 A.3, ES256",
        P256,
        "eyJhbGciOiJFUzI1NiJ9",
        JOE,
        "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q",
    ),
    (
        "RFC 7520 4.1, RS256",
        BILBO,
        "eyJhbGciOiJSUzI1NiIsImtpZCI6ImJpbGJvLmJhZ2dpbnNAaG9iYml0b24uZXhhbXBsZSJ9",
        FRODO,
        "MRjdkly7_-oTPTS3AXP41iQIGKa80A0ZmTuV5MEaHoxnW2e5CZ5NlKtainoFmKZopdHM1O2U4mwzJdQx996ivp83xuglII7PNDi84wnB-BDkoBwA78185hX-Es4JIwmDLJK3lfWRa-XtL0RnltuYv746iYTh_qHRD68BNt1uSNCrUCTJDt5aAE6x8wW1Kt9eRo4QPocSadnHXFxnt8Is9UzpERV0ePPQdLuW3IS_de3xyIrDaLGdjluPxUAhb6L2aXic1U12podGU0KLUQSE_oI-ZnmKJ3F4uOZDnd6QZWJushZ41Axf_fcIe8u9ipH84ogoree7vjbU5y18kDquDg",
    ),
    (
        "RFC 7520 4.2, PS384",
        BILBO,
        "eyJhbGciOiJQUzM4NCIsImtpZCI6ImJpbGJvLmJhZ2dpbnNAaG9iYml0b24uZXhhbXBsZSJ9",
        FRODO,
        "cu22eBqkYDKgIlTpzDXGvaFfz6WGoz7fUDcfT0kkOy42miAh2qyBzk1xEsnk2IpN6-tPid6VrklHkqsGqDqHCdP6O8TTB5dDDItllVo6_1OLPpcbUrhiUSMxbbXUvdvWXzg-UD8biiReQFlfz28zGWVsdiNAUf8ZnyPEgVFn442ZdNqiVJRmBqrYRXe8P_ijQ7p8Vdz0TTrxUeT3lm8d9shnr2lfJT8ImUjvAA2Xez2Mlp8cBE5awDzT0qI0n6uiP1aCN_2_jLAeQTlqRHtfa64QQSUmFAAjVKPbByi7xho0uTOcbH510a6GYmJUAfmWjwZ6oD4ifKo8DYM-X72Eaw",
    ),
    (
        "RFC 8037 A.4, EdDSA",
        ED25519,
        "eyJhbGciOiJFZERTQSJ9",
        "RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc",
        "hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg",
    ),
];

fn keys(keys: &[&str]) -> KeySet {
    KeySet::parse(format!("{{\"keys\":[{}]}}", keys.join(",")).as_bytes()).unwrap()
}

fn encode(text: &str) -> String {
    URL_SAFE_NO_PAD.encode(text)
}

#[test]
fn signatures_that_were_published_are_accepted_and_changed_ones_are_not() {
    for (source, key, header, payload, signature) in ACCEPTED {
        let token = format!("{header}.{payload}.{signature}");
        assert_eq!(
            verify(&token, &keys(&[HMAC, key])).unwrap_or_else(|error| panic!("{source}: {error}")),
            URL_SAFE_NO_PAD.decode(payload).unwrap(),
            "{source}"
        );
        // when one bit of the signature or of the payload differs
        for part in [1, 2] {
            let mut parts: Vec<Vec<u8>> = [header, payload, signature]
                .iter()
                .map(|part| URL_SAFE_NO_PAD.decode(part).unwrap())
                .collect();
            parts[part][7] ^= 1;
            let token: Vec<String> = parts.iter().map(|part| URL_SAFE_NO_PAD.encode(part)).collect();
            assert_eq!(verify(&token.join("."), &keys(&[key])), Err(SignatureError::Mismatch), "{source}");
        }
        // and another key of the same kind does not match
        let none = keys(&[HMAC]);
        assert!(none.is_empty());
        assert!(matches!(verify(&token, &none), Err(SignatureError::UnknownKey(_))), "{source}");
    }
}

#[test]
fn t16_symmetric_and_absent_signatures_are_refused() {
    // RFC 7515 A.1: HS256, with its key in the set; A.5 and RFC 7519 6.1: none.
    let hs256 =
        format!("eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9.{JOE}.dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk");
    let none = format!("eyJhbGciOiJub25lIn0.{JOE}.");
    for (token, algorithm) in [(&hs256, "HS256"), (&none, "none")] {
        assert_eq!(verify(token, &keys(&[HMAC, RSA_2048])), Err(SignatureError::Algorithm(algorithm.into())));
    }
    // The public key as HMAC key: ring's HMAC computes the attacker's signature.
    let message = format!("{}.{JOE}", encode(r#"{"alg":"HS256","typ":"JWT"}"#));
    let public = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, RSA_2048.as_bytes());
    let forged = URL_SAFE_NO_PAD.encode(ring::hmac::sign(&public, message.as_bytes()));
    let refused = verify(&format!("{message}.{forged}"), &keys(&[RSA_2048]));
    assert_eq!(refused, Err(SignatureError::Algorithm("HS256".into())));
    for algorithm in ["None", "nOnE", "ES512", "RS1", "", "HS512", "dir"] {
        let token = format!("{}.{JOE}.AA", encode(&format!("{{\"alg\":\"{algorithm}\"}}")));
        assert!(
            matches!(verify(&token, &keys(&[RSA_2048])), Err(SignatureError::Algorithm(_))),
            "{algorithm}"
        );
    }
}

#[test]
fn t16_keys_are_used_for_their_own_purpose_alone() {
    let (_, key, header, payload, signature) = ACCEPTED[1];
    let token = format!("{header}.{payload}.{signature}");
    let with = |field: &str| key.replacen('{', &format!("{{{field},"), 1);
    for good in [r#""use":"sig""#, r#""alg":"ES256""#, r#""key_ops":["verify"]"#, r#""kid":"a""#] {
        verify(&token, &keys(&[&with(good)])).unwrap_or_else(|error| panic!("{good}: {error}"));
    }
    for bad in [r#""use":"enc""#, r#""alg":"RS256""#, r#""key_ops":["deriveKey"]"#] {
        assert!(matches!(verify(&token, &keys(&[&with(bad)])), Err(SignatureError::UnknownKey(_))), "{bad}");
    }
    // A token with a key id is only verified with that key.
    let named = format!("{}.{payload}.{signature}", encode(r#"{"alg":"ES256","kid":"b\u202e"}"#));
    assert_eq!(
        verify(&named, &keys(&[key, &with(r#""kid":"a""#)])),
        Err(SignatureError::UnknownKey("`b`".into()))
    );
    // A point of a wrong length, or not on the curve, is not a key.
    let short = key.replace("f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU", "f83OJ3D2");
    assert!(keys(&[&short]).is_empty());
    let off = key.replace("x_FEz", "x_FEa");
    assert_eq!(verify(&token, &keys(&[&off])), Err(SignatureError::Mismatch));
    // An RSA key of 1024 bits is too short.
    let weak =
        format!("{{\"kty\":\"RSA\",\"e\":\"AQAB\",\"n\":\"{}\"}}", URL_SAFE_NO_PAD.encode([0xc1; 128]));
    let (_, _, header, payload, signature) = ACCEPTED[0];
    let token = format!("{header}.{payload}.{signature}");
    assert_eq!(verify(&token, &keys(&[&weak])), Err(SignatureError::Mismatch));
}

#[test]
fn t16_texts_that_are_not_tokens_are_refused() {
    let set = keys(&[RSA_2048, P256]);
    let long = "a".repeat(MAX_TOKEN + 1);
    let (_, _, header, payload, signature) = ACCEPTED[0];
    let header_of = |json: &str| format!("{}.{payload}.{signature}", encode(json));
    for text in [
        String::new(),
        "a".into(),
        "a.b".into(),
        "..".into(),
        long,
        format!("{header}.{payload}.{signature}."),
        format!("{header}.{payload}..{signature}"),
        format!("{header}.{payload}.{signature}="),
        format!(" {header}.{payload}.{signature}"),
        format!("{header}.{payload}.\u{e9}"),
        header_of("[]"),
        header_of("{}"),
        header_of(r#"{"alg":1}"#),
        header_of(r#"{"alg":"RS256","alg":"RS256"}"#),
        header_of(r#"{"alg":"RS256","crit":["exp"]}"#),
        header_of(r#"{"alg":"RS256","typ":"at+jwt"}"#),
        header_of(r#"{"alg":"RS256","typ":"logout+jwt"}"#),
    ] {
        assert!(matches!(verify(&text, &set), Err(SignatureError::Malformed(_))), "{text:.80}");
    }
    for text in ["", "[]", "{}", "{\"keys\":{}}", "<html>"] {
        assert!(KeySet::parse(text.as_bytes()).is_err(), "{text}");
    }
    // and malformed keys do not affect the others
    let odd = [r#"{"kty":1}"#, r#"{"kty":"RSA"}"#, r#"{"kty":"EC","crv":"P-521","x":"AA","y":"AA"}"#, "[]"];
    assert!(keys(&odd).is_empty());
    assert_eq!(keys(&[odd[0], odd[1], P256]).keys.len(), 1);
}
