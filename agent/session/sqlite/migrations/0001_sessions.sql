-- Keys are text as the program gives it; times are RFC 3339 in UTC with nine digits.
CREATE TABLE parley_session (
  app      TEXT    NOT NULL,
  user_id  TEXT    NOT NULL,
  id       TEXT    NOT NULL,
  revision INTEGER NOT NULL,
  updated  TEXT    NOT NULL,
  PRIMARY KEY (app, user_id, id)
) WITHOUT ROWID;
CREATE INDEX parley_session_updated ON parley_session (updated);
CREATE INDEX parley_session_user ON parley_session (user_id);

-- seq is the session's revision after the event.
CREATE TABLE parley_event (
  app        TEXT    NOT NULL,
  user_id    TEXT    NOT NULL,
  session_id TEXT    NOT NULL,
  seq        INTEGER NOT NULL,
  id         TEXT    NOT NULL,
  at         TEXT    NOT NULL,
  body       TEXT    NOT NULL,
  PRIMARY KEY (app, user_id, session_id, seq),
  UNIQUE (app, user_id, session_id, id)
);

-- session_id is empty for what a user's sessions share, user_id too for an app's.
CREATE TABLE parley_state (
  app        TEXT NOT NULL,
  user_id    TEXT NOT NULL,
  session_id TEXT NOT NULL,
  name       TEXT NOT NULL,
  value      TEXT NOT NULL,
  updated    TEXT NOT NULL,
  PRIMARY KEY (app, user_id, session_id, name)
) WITHOUT ROWID;
CREATE INDEX parley_state_user ON parley_state (user_id);
