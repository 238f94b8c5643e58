"""A client of a gRPC service of the server, built from reflection: only the name of the service is needed."""

from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

RLS = "envoy.service.ratelimit.v3.RateLimitService"
AUTHZ = "envoy.service.auth.v3.Authorization"


class Service:
    """A service by its name, with its descriptors from reflection."""

    def __init__(self, channel, name):
        self.channel = channel
        self.pool = DescriptorPool(ProtoReflectionDescriptorDatabase(channel))
        self.described = self.pool.FindServiceByName(name)

    def message(self, name):
        return GetMessageClass(self.pool.FindMessageTypeByName(name))

    def method(self, name):
        """The callable for a method, and the class of its request message."""
        described = self.described.methods_by_name[name]
        unary = self.channel.unary_unary(
            f"/{self.described.full_name}/{name}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=GetMessageClass(described.output_type).FromString,
        )
        return unary, GetMessageClass(described.input_type)

    def call(self, name, request):
        unary, message = self.method(name)
        return unary(message(**request), timeout=5)
