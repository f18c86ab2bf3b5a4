"""Many workers in one process: SERVER NAME SESSIONS POLLS; each session has a connection of its own
and POLLS long polls under way.  Says "ready" a second after all are registered and begin to poll,
and after SIGTERM what it did, as JSON.
"""
import asyncio
import collections
import json
import os
import signal
import sys

import grpc

from headworks.worker.v1 import worker_pb2 as pb
from headworks.worker.v1 import worker_pb2_grpc

TOKEN = [("authorization", "Bearer " + os.environ["HEADWORKS_WORKER_TOKEN"])]
OPTIONS = [("grpc.enable_http_proxy", 0), ("grpc.use_local_subchannel_pool", 1)]


class Session:
    counts = collections.Counter()
    stop = asyncio.Event()

    def __init__(self, server, name):
        self.stub = worker_pb2_grpc.WorkerStub(grpc.aio.insecure_channel(server, OPTIONS))
        self.who = pb.Identity(tenant="public", worker=name, incarnation="one")

    async def register(self, polls):
        await self.stub.Register(pb.RegisterRequest(who=self.who, slots={"default": polls},
                                                    protocol=1), metadata=TOKEN)

    async def poll(self):
        while not self.stop.is_set():
            polled = await self.stub.Poll(
                pb.PollRequest(who=self.who, free={"default": 1}, wait_us=60_000_000),
                metadata=TOKEN)
            self.counts["polls"] += 1
            for each in polled.assignments:
                started = await self.stub.Start(
                    pb.StartRequest(who=self.who, start_token=each.start_token), metadata=TOKEN)
                if started.reply != pb.REPLY_GO_ON:
                    self.counts["not started"] += 1
                    continue
                done = await self.stub.Complete(
                    pb.CompleteRequest(work_token=started.work_token,
                                       outcome=pb.Outcome(verdict=pb.VERDICT_SUCCEEDED)),
                    metadata=TOKEN)
                self.counts["done" if done.reply == pb.REPLY_GO_ON else "not done"] += 1


async def main(server, name, sessions, polls):
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, Session.stop.set)
    all_sessions = [Session(server, f"{name}-{n}") for n in range(sessions)]
    await asyncio.gather(*(session.register(polls) for session in all_sessions))
    tasks = [asyncio.ensure_future(session.poll())
             for session in all_sessions for _ in range(polls)]
    await asyncio.sleep(1)
    print("ready", flush=True)
    stopped = asyncio.ensure_future(Session.stop.wait())
    ended, _ = await asyncio.wait([stopped, *tasks], return_when=asyncio.FIRST_COMPLETED)
    for task in ended - {stopped}:
        task.result()  # a poll ends with the stop alone, or by an error
    print(json.dumps(Session.counts), flush=True)
    os._exit(0)  # thousands of calls take long to end one by one


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
