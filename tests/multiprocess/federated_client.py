"""A client of federated training in Python, from proto/federated.proto alone: softmax regression on random clusters.

usage: federated_client.py GENERATED ADDRESS NAME   (GENERATED: folder with federated_pb2.py and federated_pb2_grpc.py)
"""

import hashlib
import math
import random
import struct
import sys
import time

sys.path.insert(0, sys.argv[1])
import grpc  # noqa: E402
import federated_pb2 as wire  # noqa: E402
import federated_pb2_grpc  # noqa: E402

ADDRESS, NAME = sys.argv[2], sys.argv[3]
server = federated_pb2_grpc.FederatedStub(grpc.insecure_channel(ADDRESS))


def patiently(call, request):
    """A server that is away, or is being started again, is tried again."""
    for _ in range(600):
        try:
            return call(request, timeout=30)
        except grpc.RpcError as error:
            if error.code() not in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
                raise
            time.sleep(0.1)  # sleeps: the pause between two tries is the client's
    sys.exit("the server does not come back")


def read_model(enrolled, task):
    data = b""
    while len(data) < 4 * enrolled.model_floats:
        request = wire.ReadModelRequest(
            name=NAME, round=task.round, offset=len(data), bytes=enrolled.chunk_bytes)
        data += patiently(server.ReadModel, request).data
    return list(struct.unpack(f"<{enrolled.model_floats}f", data))


def send_update(enrolled, task, update, samples, loss):
    data = struct.pack(f"<{len(update)}f", *update)
    request = wire.SendUpdateRequest(
        name=NAME, round=task.round, digest=hashlib.sha256(data).hexdigest(), total_bytes=len(data), samples=samples,
        loss=loss)
    while True:
        request.data = data[request.offset:request.offset + enrolled.chunk_bytes]
        reply = patiently(server.SendUpdate, request)
        if reply.verdict != wire.SendUpdateReply.PARTIAL:
            return reply
        request.offset = reply.received


def train(model, places, samples, epochs, rate):
    """Softmax regression by stochastic gradient descent; gives the mean loss of the last epoch."""
    classes, inputs = places["weight"].shape
    weight, bias = places["weight"].offset, places["bias"].offset
    loss = 0.0
    for _ in range(epochs):
        loss = 0.0
        for values, label in samples:
            scores = [
                model[bias + c] + sum(model[weight + c * inputs + i] * values[i] for i in range(inputs))
                for c in range(classes)
            ]
            largest = max(scores)
            exponentials = [math.exp(score - largest) for score in scores]
            total = sum(exponentials)
            loss -= math.log(max(exponentials[label] / total, 1e-12)) / len(samples)
            for c in range(classes):
                slope = rate * (exponentials[c] / total - (1 if c == label else 0))
                model[bias + c] -= slope
                for i in range(inputs):
                    model[weight + c * inputs + i] -= slope * values[i]
    return loss


def main():
    enrolled = patiently(server.Enrol, wire.EnrolRequest(name=NAME, software="python"))
    places = {tensor.name.split(".")[-1]: tensor for tensor in enrolled.tensors}
    classes, inputs = places["weight"].shape
    draw = random.Random(enrolled.number)
    samples = []
    for n in range(60):
        label = n % classes
        samples.append(([draw.gauss(2.0 if i % classes == label else 0.0, 0.5) for i in range(inputs)], label))
    while True:
        reply = patiently(server.NextTask, wire.NextTaskRequest(name=NAME, wait_ms=2000, samples=len(samples)))
        answer = reply.WhichOneof("answer")
        if answer == "finished":
            print("finished:", reply.finished.reason)
            return
        if answer == "wait":
            time.sleep(reply.wait.again_ms / 1000)  # sleeps: as the server says
            continue
        before = read_model(enrolled, reply.task)
        model = list(before)
        loss = train(model, places, samples, reply.task.local_epochs, 0.05 * reply.task.rate)
        update = [after - old for after, old in zip(model, before)]
        sent = send_update(enrolled, reply.task, update, len(samples), loss)
        print("round", reply.task.round + 1, "loss", round(loss, 4), wire.SendUpdateReply.Verdict.Name(sent.verdict))


main()
