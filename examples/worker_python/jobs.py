"""Handles the items of one queue, in Python: prints their payloads.  See README.md."""
import argparse
import os
import signal
import threading
import time
from secrets import token_hex

import grpc
from headworks.worker.v1 import queue_pb2 as pb, queue_pb2_grpc, worker_pb2

FINAL = ("PERMISSION_DENIED", "INVALID_ARGUMENT", "FAILED_PRECONDITION")
LEASE = 30  # seconds


def handle(payload):
    """Does the work; what it raises is tried again."""
    print(payload, flush=True)
    if payload == '"fails"':
        raise ValueError("it fails")


class Jobs:
    def __init__(self, args):
        self.who = worker_pb2.Identity(tenant=args.tenant, worker=args.name,
                                       incarnation=token_hex(8))
        self.queue = args.queue
        self.stub = queue_pb2_grpc.QueuesStub(grpc.insecure_channel(args.server))
        self.metadata = [("authorization", "Bearer " + os.environ["HEADWORKS_WORKER_TOKEN"])]
        self.draining = threading.Event()

    def call(self, name, request, until=float("inf")):  # one answer, however often it takes
        while True:
            try:
                return getattr(self.stub, name)(request, timeout=80, metadata=self.metadata)
            except grpc.RpcError as error:
                said = "headworks-engine" in dict(error.trailing_metadata() or ())
                if said and error.code().name in FINAL or time.monotonic() > until:
                    raise
            if name == "Claim" and self.draining.is_set():
                return pb.ClaimResponse()
            time.sleep(0.5)

    def claim(self, items):
        return self.call("Claim", pb.ClaimRequest(
            who=self.who, queue=self.queue, max_items=items, visibility_us=LEASE * 1_000_000,
            wait_us=60_000_000))

    def run(self):
        while not self.draining.is_set():
            began = time.monotonic()
            claimed = self.claim(1)
            for item in claimed.items:
                self.work(item, began + claimed.waited_us / 1e6 + item.lease_us / 1e6)

    def drain(self):
        self.draining.set()
        while not self.done.wait(0.5):
            self.claim(0)  # ends the wait; what the other claim has got by then is still done

    def work(self, item, until):
        over = threading.Event()
        threading.Thread(target=self.extend, args=(item, over), daemon=True).start()
        said = pb.Settlement(claim=item.claim, kind=pb.SETTLEMENT_KIND_ACK)
        try:
            handle(item.payload.decode())
        except Exception as error:  # whatever it is, it is the item's
            said.kind, said.reason = pb.SETTLEMENT_KIND_NACK, str(error).encode()
        over.set()
        self.call("Settle", pb.SettleRequest(who=self.who, queue=self.queue, settlements=[said]),
                  max(until, time.monotonic() + LEASE))

    def extend(self, item, over):  # a handler that must stop when its lease is lost would look here
        while not over.wait(LEASE / 3):
            self.call("Extend", pb.ExtendRequest(who=self.who, queue=self.queue,
                                                 claims=[item.claim],
                                                 visibility_us=LEASE * 1_000_000))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server", required=True)
    parser.add_argument("--tenant", default="public")
    parser.add_argument("--name", default="python")
    parser.add_argument("--queue", default="default")
    jobs = Jobs(parser.parse_args())
    jobs.done = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=jobs.drain).start())
    print("ready", flush=True)
    try:
        jobs.run()
    finally:
        jobs.done.set()


if __name__ == "__main__":
    main()
