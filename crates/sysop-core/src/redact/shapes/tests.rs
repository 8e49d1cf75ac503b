//! Texts of known secrets, and harmless texts that look like them.

use std::borrow::Cow;

use proptest::prelude::{any, prop_assert_eq, proptest};

use super::{redact_command_shapes, redact_cut_shapes, redact_shapes};

#[test]
fn known_secret_formats_are_redacted_by_name() {
    let token = "aB3dE5gH7jK9".repeat(5);
    let cut = |length: usize| &token[..length];
    for (text, expected) in [
        ("id AKIAIOSFODNN7EXAMPLE.".to_owned(), "id [redacted: AWS key].".to_owned()),
        (
            format!("aws_secret_access_key = {}", cut(40)),
            "aws_secret_access_key = [redacted: AWS secret]".into(),
        ),
        (
            format!("\"SecretAccessKey\": \"{}\"", cut(40)),
            "\"SecretAccessKey\": \"[redacted: AWS secret]\"".into(),
        ),
        (format!("ghp_{} x", cut(36)), "[redacted: GitHub token] x".into()),
        (format!("github_pat_{}", cut(50)), "[redacted: GitHub token]".into()),
        (format!("T=glpat-{}", cut(20)), "T=[redacted: GitLab token]".into()),
        ("xoxb-123456789012-abcdef".to_owned(), "[redacted: Slack token]".into()),
        (format!("AIza{}", cut(35)), "[redacted: Google key]".into()),
        (format!("sk-ant-api03-{}", cut(40)), "[redacted: API key]".into()),
        (format!("eyJ{}.eyJ{}.{}", cut(20), cut(20), cut(20)), "[redacted: JWT]".into()),
        (
            format!("Authorization: Bearer {}", cut(20)),
            "Authorization: Bearer [redacted: authorization]".into(),
        ),
        (
            "git clone https://joe:hunter2@web/x".to_owned(),
            "git clone https://joe:[redacted: password]@web/x".into(),
        ),
    ] {
        assert_eq!(redact_shapes(&text), expected);
    }
}

#[test]
fn tokens_after_the_name_of_a_header_are_redacted() {
    let mask = "[redacted: authorization]";
    for (start, token, end) in [
        ("Authorization: Bearer ", "8f3b2c1d9e0a4f5b6c7d8e9f0a1b2c3d", ""),
        ("> authorization: token ", "0123456789abcdef0123456789abcdef01234567", "\r"),
        ("curl -H 'Authorization: Basic ", "YWRtaW46YWRtaW46", "' https://web"),
        ("Authorization: ", "8f3b2c1d9e0a", ""),
        ("Proxy-Authorization: Negotiate ", "YIIZabcdefghijkl", ""),
        ("\"X-Api-Key\": \"", "abcdef12", "\","),
        ("PRIVATE-TOKEN: ", "abcdef-1234", ""),
        ("x-goog-api-key:", "12|abcdefgh", " next"),
        ("> Api-Key: ", "8f3b2c1d9e0a", ""),
        ("< X-Gitlab-Token: ", "8f3b2c1d9e0a", ""),
        ("[authorization: Bearer ", "lower.case.token.of.many.parts", "]"),
    ] {
        assert_eq!(redact_shapes(&format!("a\n{start}{token}{end}\nb")), format!("a\n{start}{mask}{end}\nb"));
    }
    for command in [
        "curl -H 'Authorization: token 0123456789abcdef0123' web",
        "curl -H \"authorization: Bearer 8f3b2c1d9e0a4f5b\" web",
        "curl -H 'PRIVATE-TOKEN: 0123456789abcdef' web",
    ] {
        let clean = redact_command_shapes(command);
        assert!(!clean.contains("0123456789") && !clean.contains("8f3b2c1d"), "{clean}");
    }
}

#[test]
fn passwords_in_urls_end_at_the_last_at_sign() {
    for password in ["p@ssw0rd15", "$ecretpw16", "a:b@c@d"] {
        let url = |password: &str| format!("'postgres://joe:{password}@db/x' joe@web");
        assert_eq!(redact_shapes(&url(password)), url("[redacted: password]"));
        assert_eq!(redact_command_shapes(&url(password)), url("[redacted]"));
    }
}

#[test]
fn special_characters_in_urls_may_be_of_a_password_but_not_within_a_query() {
    for password in ["p?ss", "p#ss", "12#x", "80?x", "p?a=b", "801234?a=b", "?a=b"] {
        let url = |password: &str| format!("https://joe:{password}@web/x");
        assert_eq!(redact_shapes(&url(password)), url("[redacted: password]"));
        assert_eq!(redact_command_shapes(&url(password)), url("[redacted]"));
    }
    for (scheme, password) in
        [("postgres://joe", "2024?k=hunter2"), ("amqp://user", "99?pw=S3cret"), ("git+https://joe", "80?a=b")]
    {
        let url = |password: &str| format!("{scheme}:{password}@db");
        assert_eq!(redact_shapes(&url(password)), url("[redacted: password]"));
    }
    for url in [
        "postgres://localhost:5432?user=a@b",
        "amqp://10.0.0.1:99?mail=a@b.c",
        "redis://db.internal:6379?mail=a@b.c",
        "http://[::1]:8080?mail=a@b.c",
        "wss://host:8080?mail=a@b.c",
        "https://host:8080?mail=a@b.c",
        "GET https://host:8080?user.name=x&mail=a@b.c HTTP/1.1",
        "https://host?next=mailto:a@b.c",
        "https://host:8080/?mail=a@b.c",
        "https://host/x?next=mailto:a@b.c",
    ] {
        assert_eq!(redact_shapes(url), url);
    }
}

#[test]
fn cookies_that_identify_a_user_are_redacted() {
    let mask = "[redacted: cookie]";
    for (text, clean) in [
        (
            "< set-cookie: PHPSESSID=8f3b2c1d9e0a; Path=/; HttpOnly",
            format!("< set-cookie: PHPSESSID={mask}; Path=/; HttpOnly"),
        ),
        (
            "Cookie: theme=dark-blue-1; connect.sid=s%3A8f3b2c1d; remember_token=8f3b2c1d",
            format!("Cookie: theme=dark-blue-1; connect.sid={mask}; remember_token={mask}"),
        ),
    ] {
        assert_eq!(redact_shapes(text), clean);
    }
}

#[test]
fn settings_named_like_a_secret_are_redacted() {
    let mask = "[redacted: secret]";
    for (start, value, end) in [
        ("spring.datasource.password=", "hunter2", ""),
        ("password: ", "hunter22", ""),
        ("  db_password = ", "pa$$word", ""),
        ("\"clientSecret\": ", "\"s3cr3t-s3cr3t\"", ","),
        ("- client-secret: ", "'abcdef123'", "  # of the test"),
        ("+  accessKey: ", "wJalrXUtnFEMI/K7", "\r"),
        ("conf/app.yml:12:  token: ", "0123abcd", ""),
        ("web1 | secret_key: ", "abc123def", ""),
        ("passphrase=", "correct-horse-7", ""),
    ] {
        let text = format!("a: b\n{start}{value}{end}\nc: d\n");
        assert_eq!(redact_shapes(&text), format!("a: b\n{start}{mask}{end}\nc: d\n"));
        let cut = redact_cut_shapes(&text[..5 + start.len() + 2]).into_owned();
        assert_eq!(cut, format!("a: b\n{start}{mask}"));
    }
}

/// Checks that a value is redacted in a line, and also in text that is cut within it.
fn assert_value_is_redacted(start: &str, value: &str, end: &str) {
    let mask = "[redacted: secret]";
    let text = format!("a\n{start}{value}{end}\nb\n");
    assert_eq!(redact_shapes(&text), format!("a\n{start}{mask}{end}\nb\n"));
    let cut = redact_cut_shapes(&text[..2 + start.len() + 4]).into_owned();
    assert_eq!(cut, format!("a\n{start}{mask}"));
}

#[test]
fn variables_in_the_output_of_tools_are_redacted() {
    let mask = "[redacted: secret]";
    for (start, value, end) in [
        ("                \"POSTGRES_PASSWORD=", "s3cr3tProd77", "\","),
        ("Env: [\"A=b\",\"DB_PASSWORD=", "correct horse, battery", "\",\"LANG=C\"]"),
        ("Environment=DB_PASSWORD=", "s3cr3tProd77", ""),
        ("Environment=LANG=C DB_PASSWORD=", "s3cr3tProd77", " HOME=/root"),
        ("Environment=\"DB_PASSWORD=", "two words", "\" \"LANG=C\""),
        ("Environment='DB_PASSWORD=", "two \"words\"", "'"),
        ("      - MYSQL_ROOT_PASSWORD=", "correcthorsebattery", ""),
        ("      - \"MYSQL_ROOT_PASSWORD=", "correcthorsebattery", "\""),
        ("      MYSQL_ROOT_PASSWORD: ", "correcthorsebattery", ""),
        ("ENV API_TOKEN=", "abcdefgh", ""),
        ("root 7 docker run -e LANG=C -e API_TOKEN=", "abcdefgh", " --env A=b web"),
        ("root 7 docker run --env=API_TOKEN=", "abcdefgh", " web"),
        ("docker run -e POSTGRES_PASSWORD=", "\"hunter2 x\"", " postgres"),
        ("  -e DB_PASSWORD=", "'hunter2x'", " \\"),
        ("DB_PASS=", "correcthorse", ""),
        ("export LDAP_PW=", "correcthorse", ""),
        ("PASS=", "correcthorse", ""),
        ("declare -x PASS=", "\"corr\nhorse99\"", "\nHOME=/"),
        ("Environment=PASS=", "correcthorse", ""),
        ("docker run -e PW=", "correcthorse", " web"),
        ("docker run -ePASS=", "correcthorse", " web"),
        ("docker run -ePW=", "correcthorse", " web"),
        ("docker run -eDB_PASS=", "correcthorse", " web"),
        ("+PASS=", "correcthorse", ""),
        ("-PW=", "correcthorse", ""),
        ("+DB_PASS=", "correcthorse", ""),
        ("-export DB_PASSWORD=", "correcthorse", ""),
        ("++ PASS=", "correcthorse", ""),
        ("> PASS=", "correcthorse", ""),
        ("< DB_PASSWORD=", "hunter22x", ""),
        ("! DB_PASSWORD=", "hunter22x", ""),
        (" +DB_PASSWORD=", "correcthorse", ""),
        ("+  - DB_PASSWORD=", "correcthorse", ""),
        ("app.env-+PASS=", "correcthorse", ""),
        ("app.env-12-DB_PASSWORD=", "correcthorse", ""),
        ("+      MYSQL_PWD: ", "correcthorse", ""),
        ("> export PASS=", "\"corr\n> horse99\"", ""),
        ("+export PASS=", "\"corr\n+horse99\"", ""),
        ("> db_password = ", "hunter22", ""),
        ("+  - smtp_pass: ", "hunter22", ""),
        ("      MYSQL_PWD: ", "correcthorse", ""),
        ("smtp_pass = ", "hunter22", ""),
    ] {
        assert_value_is_redacted(start, value, end);
    }
    for text in [
        "PASS: tests/parse-all.sh\n",
        "PASS: parse_all\n",
        "PWD=/srv/app\nOLDPWD=workspace-1\n",
        "COMPASS=northwest\n",
        "+COMPASS=northwest\n",
        "docker run -eCOMPASS=northwest web\n",
        "> COMPASS=northwest\n",
        "+PASS: parse_all\n",
    ] {
        assert_eq!(redact_shapes(text), text);
    }
    let several = "Environment=A_TOKEN=abcdefgh B=c D_SECRET=abcdefgh";
    assert_eq!(redact_shapes(several), format!("Environment=A_TOKEN={mask} B=c D_SECRET={mask}"));
}

#[test]
fn secrets_in_pairs_of_json_are_redacted_anywhere_in_a_line() {
    for (start, value, end) in [
        ("{\"access_token\":\"", "8f3b2c1d9e0a", "\",\"token_type\":\"bearer\"}"),
        ("{\"a\":1,\"db\":{\"password\": \"", "hunter2;x", "\"}}"),
        ("{'user': 'joe', 'password': '", "hunter22", "'}"),
        ("{\"log\":\"{\\\"apiKey\\\":\\\"", "8f3b2c1d", "\\\",\\\"a\\\":1}\\n\"}"),
        ("\"Args\": [\"--db.password=", "hunter22", "\", \"-v\"]"),
    ] {
        assert_value_is_redacted(start, value, end);
    }
    for text in [
        "{\"nextToken\":\"8f3b2c1d9e0a\",\"next_page_token\":\"8f3b2c1d9e0a\"}",
        "{\"token\":\"${TOKEN1}\",\"password\":\"[redacted]\",\"secret\":\"/run/secrets/db1\"}",
        "\"API_KEY={key} is set\"",
    ] {
        assert!(matches!(redact_shapes(text), Cow::Borrowed(_)), "{text}: {}", redact_shapes(text));
    }
}

/// Returns passwords of 16 printable characters, as from a generator.
fn generated_passwords(count: usize) -> impl Iterator<Item = String> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from(b'!' + u8::try_from(state % 94).expect("a remainder is below 94"))
    };
    (0..count).map(move |_| (0..16).map(|_| next()).collect())
}

#[test]
fn generated_passwords_in_settings_are_redacted() {
    let known = ["1iEl(2h-pC;;=h_=", "*1qhT6<=%1#q&t^$", "!Qaz2wsx05", "pa(ss)w0rd07", "p{a}ss#1%w0rd"];
    let all = known.into_iter().map(str::to_owned).chain(generated_passwords(200));
    for password in all {
        for start in ["password: ", "password = ", "db.password=", "DB_PASSWORD=", "DB_PASSWORD: "] {
            let text = format!("{start}{password}");
            assert_eq!(redact_shapes(&text), format!("{start}[redacted: secret]"), "{text}");
        }
    }
}

#[test]
fn source_code_and_harmless_settings_are_kept() {
    for text in [
        "token: String",
        "    token: String,",
        "password = input(\"x\")",
        "let token: u64 = 5;",
        "token: u64,",
        "token: uint64_t",
        "secret: Uint8Array",
        "token: Vec<u8>",
        "token: Option<OAuth2Token>,",
        "token: OAuth2Token",
        "pound_token: Token![#](spans)",
        "password = settings.db2.password",
        "token: Base64Key,",
        "token = parse1(input)?;",
        "secret = b64decode2(",
        "token: &Token2,",
        "password: *database1",
        "password: !important",
        "password: %DB_PASSWORD%",
        "secret = Secret2::new(b\"x\").unwrap()",
        "DB_PASSWORD: Optional[str]",
        "password: process.env.DB_PASSWORD,",
        "api_key = os.environ[\"KEY1\"]",
        "secret: &secret1",
        "token = Token::parse1",
        "token: 1234567890",
        "private_key: /etc/ssl/private/web1.key",
        "password: ${DB_PASSWORD1}",
        "password = \"{{ vault_password_1 }}\"",
        "password=\"{{vault1}}\"",
        "password: $db_password1",
        "password: <password1>",
        "password: ********",
        "password: changeme",
        "secret: my-secret-name",
        "password: [redacted: secret]",
        "password: \"[redacted]\"",
        "\"NextToken\": \"eyJ2IjoiMiIsImMi\",",
        "next_page_token: abc123def",
        "password: the one of 2024",
        "secretName: web-tls-1",
        "max_tokens: 4096abc",
        "Password: ",
    ] {
        assert!(matches!(redact_shapes(text), Cow::Borrowed(_)), "{text}: {}", redact_shapes(text));
    }
}

#[test]
fn private_keys_are_redacted_whole_and_in_parts() {
    let key = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3Blbn\nNza=\n-----END OPENSSH PRIVATE KEY-----\n";
    assert_eq!(redact_shapes(&format!("a\n{key}b")), "a\n[redacted: private key]\nb");
    let (head, tail) = key.split_at(40);
    assert_eq!(redact_shapes(head), "[redacted: private key]");
    assert_eq!(redact_shapes(tail), "[redacted: private key]\n");
    let public = "-----BEGIN PUBLIC KEY-----\nMFk=\n-----END PUBLIC KEY-----";
    assert_eq!(redact_shapes(public), public);
}

#[test]
fn values_of_variables_named_like_a_secret_are_redacted() {
    let mask = "[redacted: secret]";
    for (line, shown) in [
        ("DB_PASSWORD=hunter2", "DB_PASSWORD="),
        ("PGPASSWORD=correct horse battery", "PGPASSWORD="),
        ("export STRIPE_SECRET='a b c d'", "export STRIPE_SECRET="),
        ("declare -x API_TOKEN=\"abc-def-ghi\"", "declare -x API_TOKEN="),
        ("declare -rx API_TOKENS_2=\"a\\\"b\nc\nd\"", "declare -rx API_TOKENS_2="),
        ("  MYSQL_PWD=s3cret-s3cret", "  MYSQL_PWD="),
        ("APP_CREDENTIALS={\"a\":1}", "APP_CREDENTIALS="),
        ("SECRET_KEY_BASE=/abcDEF123abcDEF123abcDEF123", "SECRET_KEY_BASE="),
        ("PASSWORD=$ecret-one", "PASSWORD="),
        ("TOKEN=[redacted] and more", "TOKEN="),
    ] {
        let text = format!("HOME=/root\n{line}\nLANG=C\n");
        assert_eq!(redact_shapes(&text), format!("HOME=/root\n{shown}{mask}\nLANG=C\n"));
        assert_eq!(redact_cut_shapes(&text[..text.len() - 8]), format!("HOME=/root\n{shown}{mask}"));
    }
    let separated = "HOME=/root\0DB_PASSWORD=hunter2\0API_TOKEN=abcdefg\0LANG=C";
    let expected = format!("HOME=/root\0DB_PASSWORD={mask}\0API_TOKEN={mask}\0LANG=C");
    assert_eq!(redact_shapes(separated), expected);
    let token = format!("GITHUB_TOKEN=ghp_{}", "aB3d".repeat(9));
    assert_eq!(redact_shapes(&token), "GITHUB_TOKEN=[redacted: GitHub token]");
    let command = redact_command_shapes("API_KEY=abcdefg make -j 4");
    assert_eq!(command, "API_KEY=[redacted] make -j 4");
}

#[test]
fn a_name_with_the_part_pw_is_a_secret_in_command_lines() {
    for (start, end) in [
        ("LDAP_PW=", " ldapsearch -x"),
        ("PW=", " make"),
        ("pw2=", " make"),
        ("docker run -e PW=", " web"),
        ("docker run -ePW=", " web"),
        ("docker run --env=BIND_PW_NEW=", " web"),
        ("ldappasswd --admin-pw=", ""),
        ("plink -pw ", " web1"),
        ("tool --admin-pw ", " web1"),
    ] {
        let clean = redact_command_shapes(&format!("{start}hunter22{end}"));
        assert_eq!(clean, format!("{start}[redacted]{end}"));
    }
    for command in ["CPW=abc make", "pwgen -s 20", "PWM=50 run", "PWR=12 make", "ls -pw1"] {
        assert_eq!(redact_command_shapes(command), command);
    }
}

#[test]
fn harmless_variables_are_kept() {
    for text in [
        "KEYBOARD=us-intl",
        "SSH_AUTH_SOCK=/tmp/ssh-XXXX/agent.1",
        "TOKENIZERS_PARALLELISM=false",
        "TOKENIZER=sentencepiece",
        "USE_TOKEN=true",
        "MAX_TOKENS=1048576",
        "TOKEN_FILE=/run/secrets/token",
        "declare -x AWS_WEB_IDENTITY_TOKEN_FILE=\"/var/run/secrets/token\"",
        "PASSWORD=short",
        "PASSWORD=",
        "TOKEN=$(cat token.txt)",
        "export TOKEN=\"${TOKEN:-default}\"",
        "API_KEY=\"$API_KEY\"",
        "API_KEY=<your-key>",
        "if TOKEN == 'abcdefghi':",
        "TOKEN = read_token()",
        "see PASSWORD=hunter2 in the manual",
    ] {
        assert!(matches!(redact_shapes(text), Cow::Borrowed(_)), "{text}: {}", redact_shapes(text));
    }
}

proptest! {
    #[test]
    fn no_part_of_a_variable_survives_a_cut(
        before in "([A-Z]{1,3}=[a-z]{0,3}\n){0,2}",
        prefix in "|export |declare -x ",
        name in "[A-Z]{0,2}_?(SECRET|PASSWORD|TOKEN|API_KEY)(_[A-Z])?",
        value in "[!-\"#%-Z\\]^-~]{6,20}",
        cut in any::<proptest::sample::Index>(),
    ) {
        let start = format!("{before}{prefix}{name}=");
        let cut = 1 + cut.index(value.len());
        let clean = redact_cut_shapes(&format!("{start}{}", &value[..cut])).into_owned();
        prop_assert_eq!(clean.strip_prefix(&start), Some("[redacted: secret]"));
    }
}

#[test]
fn similar_harmless_text_is_kept() {
    for text in [
        "commit 6730ca7d1f0c2b3a4958677584930210aabbccdd",
        "550e8400-e29b-41d4-a716-446655440000",
        "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk",
        ".sk-toggleable__label-arrow-something",
        "the bearer of this message",
        "Authorization: Bearer $TOKEN",
        "X-Continuation-Token: 8f3b2c1d9e0a",
        "Set-Cookie: theme=dark-blue-1; Path=/",
        "postgres://joe:${PASSWORD}@db/x",
        "Authorization: Bearer authentication",
        "authorization: AuthorizationService2,",
        "authorization: process.env.AUTHORIZATION",
        "Authorization: see RFC7235 for the header",
        "postgres://joe:$PASSWORD@db/x http://localhost:8080/a@b",
        "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "no secret here: eyJhbGciOiJIUzI1NiJ9",
    ] {
        assert!(matches!(redact_shapes(text), Cow::Borrowed(_)), "{text}: {}", redact_shapes(text));
    }
}

#[test]
fn a_truncated_token_is_redacted() {
    assert_eq!(redact_cut_shapes("see ghp_aB3dE5"), "see [redacted: token]");
    assert_eq!(redact_cut_shapes("see ghp_ here"), "see ghp_ here");
}

#[test]
fn redacting_twice_changes_nothing() {
    let once = redact_shapes("https://joe:hunter2@web AKIAIOSFODNN7EXAMPLE").into_owned();
    assert_eq!(redact_shapes(&once), once);
}
