"""Passes TCP connections on to a server, until it is told not to."""
import socket
import threading


class FaultProxy:
    """Listens on a port of its own.  `cut()`: bytes are held on open connections, new ones are
    taken and held; `drop()`: open connections end at once; `join()`: all flows again."""

    def __init__(self, target):
        host, port = target.rsplit(":", 1)
        self._target = (host, int(port))
        self._open = threading.Event()
        self._open.set()
        self._sockets = set()
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self):
        self._open.clear()

    def join(self):
        self._open.set()

    def drop(self):
        with self._lock:
            for each in self._sockets:
                try:
                    each.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass  # it has ended by itself

    def close(self):
        self._listener.close()
        self.join()
        self.drop()

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        self._open.wait()
        try:
            server = socket.create_connection(self._target)
        except OSError:
            client.close()
            return
        with self._lock:
            self._sockets |= {client, server}
        for a, b in ((client, server), (server, client)):
            threading.Thread(target=self._pass, args=(a, b), daemon=True).start()

    def _pass(self, source, sink):
        try:
            while data := source.recv(65536):
                self._open.wait()
                sink.sendall(data)
        except OSError:
            pass  # the other end is told below
        with self._lock:
            first = source in self._sockets
            self._sockets -= {source, sink}
        if first:  # the other direction hears of it by that, and closes both
            for each in (source, sink):
                try:
                    each.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass  # it has ended by itself
        else:
            source.close()
            sink.close()
