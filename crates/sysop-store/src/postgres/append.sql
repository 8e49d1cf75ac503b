-- Appends of many sessions, at most one each, in one statement, so in one transaction.
-- $1 to $11 have an entry for each append, $12 to $15 for each event, $16 and $17 for each letter.
-- An append is stored only where the log ends where its writer believes it does and the writer is its owner.
WITH want AS (
    SELECT * FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::text[],
                         $7::bigint[], $8::bigint[], $9::text[], $10::text[], $11::text[])
        AS want (id, token, after, last, mark, title, first_at, last_at, host, root, owner)
), continued AS (
    UPDATE sysop_sessions AS session
    SET last_seq = want.last, changed = want.last_at, mark = want.mark,
        title = CASE session.title WHEN '' THEN want.title ELSE session.title END
    FROM want
    WHERE session.id = want.id AND session.last_seq = want.after AND session.token = want.token AND want.after > 0
    RETURNING session.id, session.last_seq, session.watchers
), begun AS (
    INSERT INTO sysop_sessions (id, title, created, changed, last_seq, host, root, mark, owner, token)
    SELECT id, title, first_at, last_at, last, host, root, mark, NULLIF(owner, ''), token FROM want WHERE after = 0
    ON CONFLICT (id) DO NOTHING
    RETURNING id, last_seq, watchers
), appended AS (
    SELECT * FROM continued UNION ALL SELECT * FROM begun
), stored AS (
    INSERT INTO sysop_events (session, seq, at, body)
    SELECT event.session, event.seq, event.at, event.body
    FROM unnest($12::text[], $13::bigint[], $14::bigint[], $15::text[]) AS event (session, seq, at, body)
    JOIN appended ON appended.id = event.session
), taken AS (
    UPDATE sysop_letters AS letter SET taken = clock_timestamp()
    FROM unnest($16::text[], $17::bigint[]) AS read (session, number)
    JOIN appended ON appended.id = read.session
    WHERE letter.number = read.number AND letter.session = read.session
)
SELECT id, (SELECT count(pg_notify(channel, json_build_object('appended', id, 'seq', last_seq)::text))
            FROM unnest(watchers) AS channel)
FROM appended
