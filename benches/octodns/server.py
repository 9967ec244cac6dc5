"""The PowerDNS both tools are measured on: started by tests/rig/powerdns, counted by its own log."""

import json
import pathlib
import re
import subprocess
import time
import urllib.error
import urllib.request

RIG = pathlib.Path(__file__).resolve().parents[2] / "tests" / "rig" / "powerdns"
REQUEST = re.compile(rb'"([A-Z]+) (/\S*) HTTP/[0-9.]+" (\d+) (\d+)')
SENTINEL = "bench-sentinel"
READS = ("GET", "HEAD", "OPTIONS")


class Server:
    """A fresh PowerDNS with its default settings but for `settings`; the database is empty, and `zones` are for the tools to
    create."""

    entry = "pdns"

    def __init__(self, directory, zones=(), settings=()):
        command = [RIG, "start", directory, "--log-requests", *(f"--set={setting}" for setting in settings)]
        # The pipe is the leash: the server ends when this process does, however it ends.
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("error: PowerDNS did not start")
        facts = json.loads(line)
        self.url, self.key, self.log = facts["url"], facts["key"], pathlib.Path(facts["log"])
        self.opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        self.sentinels = 0

    def stop(self):
        self.process.stdin.close()
        self.process.wait()

    def call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"{self.url}/api/v1/servers/localhost{path}", data, {"X-API-Key": self.key}, method=method
        )
        with self.opener.open(request) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    def octodns(self):
        """The provider as octoDNS configures it."""
        host, _, port = self.url.removeprefix("http://").rpartition(":")
        return f"{{class: octodns_powerdns.PowerDnsProvider, host: {host}, port: {port}, api_key: {self.key}}}"

    def reconciled(self, directory):
        """The entry of the provider."""
        key = directory / "pdns.key"
        key.write_text(self.key + "\n", encoding="utf-8")
        key.chmod(0o600)
        return f'{{name: {self.entry}, type: powerdns, url: "{self.url}", apiKey: {{file: {key}}}}}'

    def version(self):
        return self.call("GET", "")["version"]

    def rrsets(self, zone):
        """All that users declare in a zone: {(name, type): [content]}, without SOA and apex NS."""
        found = {}
        for rrset in self.call("GET", f"/zones/{zone}")["rrsets"]:
            if rrset["type"] != "SOA" and not (rrset["type"] == "NS" and rrset["name"] == zone):
                found[rrset["name"], rrset["type"]] = [record["content"] for record in rrset["records"]]
        return found

    def serial(self, zone):
        return self.call("GET", f"/zones/{zone}?rrsets=false")["serial"]

    def touch(self, zone, name, content):
        """Moves the serial of a zone and nothing else: a record is replaced by itself.

        A reader that trusts serials has to read the whole zone after this.
        """
        before = self.serial(zone)
        rrset = {"name": name, "type": "A", "ttl": 300, "changetype": "REPLACE"}
        rrset["records"] = [{"content": content, "disabled": False}]
        self.call("PATCH", f"/zones/{zone}", {"rrsets": [rrset]})
        if self.serial(zone) == before:
            raise SystemExit(f"error: the serial of {zone} did not move, so nothing would have to be read")

    def mark(self):
        """The place in the log after everything that was asked so far."""
        self.sentinels += 1
        tag = f"{SENTINEL}-{self.sentinels}"
        try:
            self.call("GET", f"/zones/{tag}.")
        except urllib.error.HTTPError:
            pass
        # Each connection has a thread of its own, and a line is written after its answer was sent:
        # the log is complete when the sentinel is in it and it has stopped growing.
        size, deadline = -1, time.monotonic() + 30
        while time.monotonic() < deadline:
            now = self.log.stat().st_size
            if now == size and tag.encode() in self.log.read_bytes()[-65536:]:
                return now
            size = now
            time.sleep(0.05)
        raise SystemExit(f"error: {self.log} does not show the request {tag}")

    def requests(self, start, end):
        """The API requests between two marks, as (method, path, status, bytes of the answer)."""
        with self.log.open("rb") as log:
            log.seek(start)
            text = log.read(end - start)
        rows = [(m[1].decode(), m[2].decode(), int(m[3]), int(m[4])) for m in REQUEST.finditer(text)]
        return [row for row in rows if SENTINEL not in row[1]]

    @staticmethod
    def split(requests):
        reads = sum(method in READS for method, *_ in requests)
        return {"reads": reads, "writes": len(requests) - reads}

    @staticmethod
    def was_read(requests):
        return sum(method in READS for method, *_ in requests) >= 2
