"""The BIND both tools are measured on: started here with the zones in place, counted by its own log."""

import base64
import pathlib
import re
import secrets
import shutil
import socket
import subprocess
import time

QUERY = re.compile(rb"query: (\S+) IN (\S+) (\S+)")
SENTINEL = "BENCH-SENTINEL"
KEY = "reconciled."
PATHS = "/usr/sbin:/usr/local/sbin:/sbin:/usr/bin:/bin"

CONFIG = """\
options {{
    directory "{place}"; pid-file none; session-keyfile "{place}/session.key"; managed-keys-directory "{place}";
    listen-on port {port} {{ 127.0.0.1; }}; listen-on-v6 {{ none; }};
    recursion no; notify no; dnssec-validation no; querylog yes;
}};
controls {{ }};
logging {{
    channel log {{ file "{place}/named.log"; print-category yes; severity info; }};
    category queries {{ log; }}; category update {{ null; }};
}};
key {key} {{ algorithm hmac-sha256; secret "{secret}"; }};
"""
ZONE = """\
zone "{zone}" {{
    type primary; file "{place}/zones/{zone}.zone";
    allow-transfer {{ key {key}; }}; update-policy {{ grant {key} zonesub ANY; }};
}};
"""
EMPTY = "$TTL 300\n@ SOA ns1.example.net. hostmaster.example.net. 1 10800 3600 604800 300\n@ NS ns1.example.net.\n"


def program(name):
    path = shutil.which(name, path=PATHS)
    if path is None:
        raise SystemExit(f"error: {name} is not installed (Debian: bind9 bind9-dnsutils)")
    return path


def free_port():
    """A port that is free for both transports: BIND goes on without the one that it cannot listen on."""
    while True:
        with socket.socket() as stream, socket.socket(type=socket.SOCK_DGRAM) as datagrams:
            stream.bind(("127.0.0.1", 0))
            port = stream.getsockname()[1]
            try:
                datagrams.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


class Server:
    """A fresh BIND with empty zones and one key that may transfer and update them."""

    entry = "bind"

    def __init__(self, place, zones=()):
        (place / "zones").mkdir(parents=True)
        self.place, self.log, self.sentinels = place, place / "named.log", 0
        self.secret = base64.b64encode(secrets.token_bytes(32)).decode()
        self.port = free_port()
        names = [zone.removesuffix(".") for zone in zones] + [SENTINEL.lower()]
        # The bench's own questions are in capitals, which no tool writes.
        (place / "serials.txt").write_text("".join(f"+short SOA {name.upper()}\n" for name in names), encoding="utf-8")
        text = CONFIG.format(place=place, port=self.port, key=KEY, secret=self.secret)
        for name in names:
            (place / "zones" / f"{name}.zone").write_text(EMPTY, encoding="utf-8")
            text += ZONE.format(zone=name, place=place, key=KEY)
        (place / "named.conf").write_text(text, encoding="utf-8")
        with (place / "output.txt").open("wb") as output:
            self.process = subprocess.Popen(
                [program("named"), "-f", "-c", place / "named.conf"], stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
        deadline = time.monotonic() + 60
        while not all(self.dig(transport, "+short", "SOA", SENTINEL) for transport in ("+notcp", "+tcp")):
            if self.process.poll() is not None or time.monotonic() > deadline:
                said = (place / "output.txt").read_text(encoding="utf-8", errors="replace")
                raise SystemExit(f"error: BIND did not start\n{said[-2000:]}")
            time.sleep(0.05)

    def stop(self):
        self.process.terminate()
        self.process.wait()

    def dig(self, *arguments):
        command = [program("dig"), "@127.0.0.1", "-p", str(self.port), "+time=5", "+tries=2", *arguments]
        answer = subprocess.run(command, capture_output=True, text=True)
        return answer.stdout if answer.returncode == 0 else ""

    @staticmethod
    def version():
        return subprocess.run([program("named"), "-v"], capture_output=True, text=True).stdout.split()[1]

    def octodns(self):
        """The provider as octoDNS configures it."""
        return (
            f"{{class: octodns_bind.Rfc2136Provider, host: 127.0.0.1, port: {self.port}, key_name: {KEY}, "
            f"key_algorithm: hmac-sha256, key_secret: '{self.secret}'}}"
        )

    def reconciled(self, directory):
        """The entry of the provider."""
        secret = directory / "tsig"
        secret.write_text(self.secret + "\n", encoding="utf-8")
        secret.chmod(0o600)
        return (
            f'{{name: {self.entry}, type: rfc2136, server: "127.0.0.1:{self.port}", '
            f"tsig: {{name: {KEY}, secret: {{file: {secret}}}}}}}"
        )

    def rrsets(self, zone):
        """All that users declare in a zone: {(name, type): [content]}, without SOA and apex NS."""
        key = f"hmac-sha256:{KEY}:{self.secret}"
        found = {}
        for line in self.dig("-y", key, "+noall", "+answer", "AXFR", zone.upper()).splitlines():
            name, _ttl, _class, kind, content = line.split(None, 4)
            name = name.lower()
            if kind != "SOA" and not (kind == "NS" and name == zone):
                found.setdefault((name, kind), []).append(content)
        return found

    def touch(self, zone, name, _content):
        """Moves the serial of a zone and nothing else: a record comes and goes."""
        for line in (f"update add touched.{name} 60 TXT x", f"update delete touched.{name} TXT"):
            text = f"server 127.0.0.1 {self.port}\nzone {zone.upper()}\n{line}\nsend\n"
            command = [program("nsupdate"), "-v", "-y", f"hmac-sha256:{KEY}:{self.secret}"]
            subprocess.run(command, input=text, text=True, check=True, capture_output=True)

    def serials(self):
        """The serials of all zones together: each update that changes something raises one of them by one."""
        lines = self.dig("-f", self.place / "serials.txt").splitlines()
        return sum(int(line.split()[2]) for line in lines)

    def mark(self):
        """The place in the log after everything that was asked so far, and the serials."""
        serials = self.serials()
        self.sentinels += 1
        tag = f"MARK-{self.sentinels}.{SENTINEL}"
        deadline = time.monotonic() + 30
        self.dig("A", tag)
        while time.monotonic() < deadline:
            text = self.log.read_bytes()
            at = text.rfind(tag.encode())
            if at >= 0:
                return text.find(b"\n", at) + 1, serials
            time.sleep(0.05)
        raise SystemExit(f"error: {self.log} does not show the question {tag}")

    def requests(self, start, end):
        """The requests between two marks, as (what, flags): a type that was asked for, or `UPDATE`."""
        rows = []
        for line in self.log.read_bytes()[start[0] : end[0]].splitlines():
            asked = QUERY.search(line)
            if asked and asked[1] == asked[1].lower():
                rows.append((asked[2].decode(), asked[3].decode()))
        return rows + [("UPDATE", "T")] * (end[1] - start[1])

    @staticmethod
    def split(requests):
        writes = sum(what == "UPDATE" for what, _ in requests)
        # A question over UDP is a packet each way; a conversation over TCP is more than anybody wants to count.
        packets = sum(100 if "T" in flags else 2 for _, flags in requests)
        return {"reads": len(requests) - writes, "writes": writes, "packets": packets}

    @staticmethod
    def was_read(requests):
        return any(what == "AXFR" for what, _ in requests)
