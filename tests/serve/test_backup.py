"""Backups as the documents tell to make them, while reports come in: a restored one holds together."""

import sqlite3
import subprocess
import threading

from sqlalchemy.engine import make_url

import cede
from cede.serve.store.audit import verify
from cede.serve.store.database import Database
from cede.serve.store.log import take_in
from cede.serve.store.store import Store
from traffic import episodes, put, report, river, rows, run


def copied(url, tmp_path):
    """Make a backup, restore it elsewhere, and return the address of that."""
    where = make_url(url)
    if where.get_backend_name() == "sqlite":
        with sqlite3.connect(where.database) as source, sqlite3.connect(tmp_path / "copy.db") as target:
            source.backup(target)
        source.close()
        target.close()
        return f"sqlite:///{tmp_path}/copy.db"
    place, name = where.query["host"], f"{where.database}_copy"
    who = ["-h", place, "-U", "cede"]
    dump = subprocess.run(["pg_dump", *who, "-Fc", "-d", where.database], check=True, capture_output=True).stdout
    subprocess.run(["psql", *who, "-d", "postgres", "-qc", f"create database {name}"], check=True)
    subprocess.run(["pg_restore", *who, "-d", name], check=True, input=dump)
    return url.replace(f"/{where.database}?", f"/{name}?")


def test_a_backup_that_was_made_under_load_holds_together(store, url, tmp_path):
    teams, done = put(store, cede.recommended(river().task), {"a": 0, "b": 1}), threading.Event()
    played = episodes(river(), 400, 1)

    def tell():
        for number, episode in enumerate(played):
            team = teams[number % 2]
            one = report(rows(team, number, episode), [(team.id, number, len(episode.actions))])
            store.database.write(lambda c, one=one: take_in(c, store.team, [one]))
            if done.is_set():
                return

    thread = threading.Thread(target=tell)
    thread.start()
    try:
        restored = Database(copied(url, tmp_path))
    finally:
        done.set()
        thread.join()
    with restored.read() as connection:
        assert verify(connection, Store(restored)) == []
        assert run(connection, "SELECT COUNT(*) FROM teams").scalar() == 2
    restored.close()
