"""Serves a provider of the package `tf` without TLS: in a folder that nobody else can enter there is nothing to encrypt, and the
certificates of `tf.runner` are too weak to be accepted."""

import os
import sys
import tempfile
import threading
from concurrent import futures

import grpc
from tf.gen import grpc_controller_pb2, grpc_controller_pb2_grpc, tfplugin_pb2_grpc
from tf.provider import ProviderServicer


class Controller(grpc_controller_pb2_grpc.GRPCControllerServicer):
    def __init__(self, end):
        self.end = end

    def Shutdown(self, request, context):
        self.end.set()
        return grpc_controller_pb2.Empty()


def serve(provider):
    if os.environ.get("TF_PLUGIN_MAGIC_COOKIE") is None:
        sys.exit("This binary is a plugin. It is started by what hosts it.")
    end = threading.Event()
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=10))
    tfplugin_pb2_grpc.add_ProviderServicer_to_server(ProviderServicer(provider), server)
    grpc_controller_pb2_grpc.add_GRPCControllerServicer_to_server(Controller(end), server)
    folder = os.environ.get("PLUGIN_UNIX_SOCKET_DIR") or tempfile.gettempdir()
    socket = f"{folder}/plugin-{os.getpid()}.sock"
    server.add_insecure_port(f"unix://{socket}")
    server.start()
    # The handshake: its version, that of the protocol, where, and how.
    print(f"1|6|unix|{socket}|grpc|", flush=True)
    end.wait()
    # What is under way has its time, and the answer to Shutdown too.
    server.stop(grace=1).wait()
