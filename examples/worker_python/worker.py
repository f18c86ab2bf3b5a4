"""A Headworks worker in Python: runs the commands of one queue.  See README.md."""
import argparse
import json
import os
import pathlib
import signal
import socket
import subprocess
import tempfile
import threading
import time
import uuid

import grpc

from headworks.worker.v1 import worker_pb2 as pb
from headworks.worker.v1 import worker_pb2_grpc

FINAL = (grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.INVALID_ARGUMENT,
         grpc.StatusCode.FAILED_PRECONDITION)


def is_final(name, request, error):
    """Whether it would be answered so again; all else is said again."""
    if not any(key == "headworks-engine" for key, _ in error.trailing_metadata() or ()):
        # A proxy's or the library's own: it says nothing, but for what is too large.
        return (error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
                and request.ByteSize() > 2**20)
    return error.code() in FINAL or (error.code() == grpc.StatusCode.UNAUTHENTICATED
                                     and name in ("Register", "Poll"))


class Worker:
    def __init__(self, args):
        self.who = pb.Identity(tenant=args.tenant, worker=args.name, incarnation=uuid.uuid4().hex)
        self.queue, self.slots = args.queue, args.slots
        self.stub = worker_pb2_grpc.WorkerStub(grpc.insecure_channel(
            args.server, [("grpc.max_reconnect_backoff_ms", 1000)]))
        self.metadata = [("authorization", "Bearer " + os.environ["HEADWORKS_WORKER_TOKEN"])]
        self.draining = threading.Event()
        self.register()

    def call(self, name, request):
        """One answer, however often it takes."""
        for attempt in range(10**9):
            try:
                answer = getattr(self.stub, name)(request, timeout=20, metadata=self.metadata)
                if getattr(answer, "reply", None) not in (pb.REPLY_ASK_AGAIN, pb.REPLY_UNSPECIFIED):
                    return answer
            except grpc.RpcError as error:
                if error.code() == grpc.StatusCode.NOT_FOUND:
                    self.register()  # the engine was restarted
                elif is_final(name, request, error):
                    raise
            time.sleep(min(1, 0.1 * 2 ** min(attempt, 6)))

    def register(self):
        welcome = self.call("Register", pb.RegisterRequest(
            who=self.who, slots={self.queue: self.slots}, host=socket.gethostname(),
            version="example", protocol=1))
        self.lease, self.beat = welcome.lease_us / 1e6, welcome.heartbeat_every_us / 1e6

    def run(self):
        while not self.draining.is_set():
            polled = self.call("Poll", pb.PollRequest(who=self.who, free={self.queue: 1},
                                                      wait_us=1_000_000))
            if polled.leave:  # an operator drains this worker
                self.draining.set()
            for each in polled.assignments:
                began = time.monotonic()
                started = self.call("Start", pb.StartRequest(who=self.who,
                                                             start_token=each.start_token))
                if started.reply == pb.REPLY_GO_ON:
                    Attempt(self, started, began).run()


class Attempt:
    def __init__(self, worker, started, began):
        self.worker, self.job, self.token = worker, started.job, started.work_token
        self.heard, self.stop, self.over = began, None, threading.Event()

    def run(self):
        outcome = pb.Outcome(started_at_us=int(time.time() * 1e6))
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "input").write_text(self.job.context_json)
            output = pathlib.Path(folder, "output")
            argv, env = self.command()
            process = subprocess.Popen(
                argv, cwd=folder, start_new_session=True, stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                env={**env, "HEADWORKS_INPUT": f"{folder}/input", "HEADWORKS_OUTPUT": str(output)})
            watch = threading.Thread(target=self.watch, args=(process,))
            watch.start()
            for number, line in enumerate(process.stdout, 1):  # lines go before the verdict
                self.worker.call("Log", pb.LogRequest(work_token=self.token, lines=[pb.Line(
                    number=number, stream=pb.STREAM_STDOUT, at_us=int(time.time() * 1e6),
                    bytes=line.rstrip(b"\n"))]))
            code = process.wait()
            self.over.set()
            watch.join()
            outcome.ended_at_us = int(time.time() * 1e6)
            outcome.verdict = self.stop or (pb.VERDICT_RETRY if code else pb.VERDICT_SUCCEEDED)
            if outcome.verdict == pb.VERDICT_SUCCEEDED:
                outcome.output = output.read_bytes() if output.exists() else b""
            elif code > 0:
                outcome.reason, outcome.exit_code, outcome.error = 2, code, f"exit {code}".encode()
        self.worker.call("Complete", pb.CompleteRequest(work_token=self.token, outcome=outcome))

    def command(self):
        own = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        own["HEADWORKS_IDEMPOTENCY_KEY"] = self.job.idempotency_key
        if self.job.HasField("rendered"):
            r = self.job.rendered
            return (list(r.exec.argv) or ["/bin/sh", "-ec", r.shell.script],
                    {**own, **r.workflow_env, **r.env, **r.bound})
        flow = json.loads(self.job.definition_json)
        task = flow["tasks"][0]
        return (task.get("exec") or ["/bin/sh", "-ec", task["run"]],
                {**own, **flow.get("env", {}), **task.get("env", {})})

    def watch(self, process):
        while not self.over.wait(min(0.5, self.worker.beat)):
            said = time.monotonic()
            try:
                request = pb.HeartbeatRequest(who=self.worker.who, work_tokens=[self.token])
                pulse = self.worker.stub.Heartbeat(request, timeout=self.worker.beat,
                                                   metadata=self.worker.metadata).pulses[0]
                self.token = pulse.work_token or self.token
                if pulse.reply in (pb.REPLY_GO_ON, pb.REPLY_CANCEL):
                    self.heard = said
                if pulse.reply in (pb.REPLY_CANCEL, pb.REPLY_STOP):
                    self.stop = pb.VERDICT_CANCELLED
            except grpc.RpcError as error:  # whoever is not heard ends by its lease, below
                if error.code() == grpc.StatusCode.NOT_FOUND:
                    self.worker.register()
            # Nobody may run it while another worker begins it: it ends before the lease does.
            if time.monotonic() > self.heard + self.worker.lease * 2 / 3:
                self.stop = self.stop or pb.VERDICT_INTERRUPTED
            if self.stop:
                os.killpg(process.pid, signal.SIGKILL)
                return


def main():
    parser = argparse.ArgumentParser()
    for name, usual in (("server", "127.0.0.1:7070"), ("tenant", "public"), ("queue", "default"),
                        ("name", "python"), ("slots", 2)):
        parser.add_argument("--" + name, default=usual, type=type(usual))
    worker = Worker(parser.parse_args())
    signal.signal(signal.SIGTERM, lambda *_: worker.draining.set())
    threads = [threading.Thread(target=worker.run) for _ in range(worker.slots)]
    [thread.start() for thread in threads]
    print("ready", flush=True)
    [thread.join() for thread in threads]
    worker.call("Leave", pb.LeaveRequest(who=worker.who))


if __name__ == "__main__":
    main()
