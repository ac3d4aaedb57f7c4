// Point to point and groups, as NCCL has them and with tags; hostccl's streams.

#include <climits>
#include <string>

#include "hostccl/abi.h"
#include "hostccl/external_streams.h"
#include "hostccl/stream.h"

namespace hostccl {
namespace {

Result go(Comm* comm, const P2pRequest& request, StreamHandle stream) {
  const pycomms::GateHolder inside(comm->impl.gate());  // until the failure has been read
  if (!inside) return refuse("the communicator is closed", nccl_abi::kInvalidUsage);
  return done(comm, issue(comm->impl, request, stream));
}

}  // namespace
}  // namespace hostccl

namespace nccl_abi {

PYCOMMS_EXPORT Result ncclSend(const void* send, size_t count, DataType type, int peer, CommHandle comm,
                               StreamHandle stream) {
  using namespace hostccl;
  RETURN_IF_REFUSED(check_call(comm, type));
  RETURN_IF_REFUSED(check_rank(comm, "peer", peer));
  RETURN_IF_REFUSED(check_pointer("sendbuff", send, count));
  const P2pRequest request{.is_send = true,
                           .data = static_cast<std::byte*>(const_cast<void*>(send)),
                           .bytes = count * element_size(type),
                           .type = type,
                           .peer = peer,
                           .timeout_ns = comm->impl.timeout_ns()};
  return hostccl::go(comm, request, stream);
}

PYCOMMS_EXPORT Result ncclRecv(void* recv, size_t count, DataType type, int peer, CommHandle comm,
                               StreamHandle stream) {
  using namespace hostccl;
  RETURN_IF_REFUSED(check_call(comm, type));
  RETURN_IF_REFUSED(check_rank(comm, "peer", peer));
  RETURN_IF_REFUSED(check_pointer("recvbuff", recv, count));
  const P2pRequest request{.data = static_cast<std::byte*>(recv),
                           .bytes = count * element_size(type),
                           .type = type,
                           .peer = peer,
                           .timeout_ns = comm->impl.timeout_ns()};
  return hostccl::go(comm, request, stream);
}

PYCOMMS_EXPORT Result ncclGroupStart() { return hostccl::group_start(); }

PYCOMMS_EXPORT Result ncclGroupEnd() { return hostccl::done(nullptr, hostccl::group_end()); }

}  // namespace nccl_abi

namespace hostccl {

// --- point to point with tags

namespace {

Result post_tagged(Comm* comm, P2pRequest request) {
  if (request.tag < INT_MIN + kReservedTags) return refuse("tag " + std::to_string(request.tag) + " is reserved");
  pycomms::GateHolder inside(comm->impl.gate());
  if (!inside) return refuse("the communicator is closed", nccl_abi::kInvalidUsage);
  request.timeout_ns = comm->impl.timeout_ns();
  return done(comm, comm->impl.post(request));
}

}  // namespace

PYCOMMS_EXPORT Result hostcclSend(const void* send, size_t count, DataType type, int peer, int tag, CommHandle comm,
                                  CompletionFn fn, void* arg) {
  RETURN_IF_REFUSED(check_call(comm, type));
  RETURN_IF_REFUSED(check_rank(comm, "peer", peer));
  RETURN_IF_REFUSED(check_pointer("send", send, count));
  return post_tagged(comm, {.is_send = true,
                            .data = static_cast<std::byte*>(const_cast<void*>(send)),
                            .bytes = count * element_size(type),
                            .type = type,
                            .peer = peer,
                            .tag = tag,
                            .done = fn,
                            .arg = arg});
}

PYCOMMS_EXPORT Result hostcclRecv(void* recv, size_t count, DataType type, int peer, int tag, CommHandle comm,
                                  CompletionFn fn, void* arg, RecvStatus* status) {
  RETURN_IF_REFUSED(check_call(comm, type));
  if (peer != kAnySource) RETURN_IF_REFUSED(check_rank(comm, "peer", peer));
  RETURN_IF_REFUSED(check_pointer("recv", recv, count));
  return post_tagged(comm, {.data = static_cast<std::byte*>(recv),
                            .bytes = count * element_size(type),
                            .type = type,
                            .peer = peer,
                            .tag = tag,
                            .done = fn,
                            .arg = arg,
                            .status = status});
}

// --- streams

PYCOMMS_EXPORT Result hostcclSetExternalStreams(const ExternalStreams* streams) {
  if (streams == nullptr || streams->launch == nullptr) return refuse("streams or its launch is null");
  set_external_streams(*streams);
  return nccl_abi::kSuccess;
}

PYCOMMS_EXPORT Result hostcclStreamCreate(StreamHandle* stream, const char* name) {
  if (stream == nullptr) return refuse("stream is null");
  *stream = new Stream(name != nullptr ? name : "pycomms-stream");
  return nccl_abi::kSuccess;
}

PYCOMMS_EXPORT Result hostcclStreamDestroy(StreamHandle stream) {
  delete static_cast<Stream*>(stream);
  return nccl_abi::kSuccess;
}

PYCOMMS_EXPORT Result hostcclStreamNotify(StreamHandle stream, CompletionFn fn, void* arg, uint64_t* position) {
  if (stream == nullptr || fn == nullptr || position == nullptr) return refuse("stream, fn or position is null");
  const pycomms::Status queued = static_cast<Stream*>(stream)->notify(fn, arg, position);
  return queued.is_ok() ? nccl_abi::kSuccess : refuse(queued.message(), nccl_abi::kSystemError);
}

PYCOMMS_EXPORT Result hostcclStreamRun(StreamHandle stream, void (*run)(void* arg), void* arg) {
  class Task final : public Stream::Task {
   public:
    Task(void (*run)(void*), void* arg) : run_(run), arg_(arg) {}
    Result run(bool) override {
      run_(arg_);
      return nccl_abi::kSuccess;
    }
    bool is_small() const override { return false; }

   private:
    void (*const run_)(void*);
    void* const arg_;
  };
  if (stream == nullptr || run == nullptr) return refuse("stream or run is null");
  const pycomms::Status queued = static_cast<Stream*>(stream)->enqueue(std::make_unique<Task>(run, arg));
  return queued.is_ok() ? nccl_abi::kSuccess : refuse(queued.message(), nccl_abi::kSystemError);
}

PYCOMMS_EXPORT int hostcclStreamHelp(StreamHandle stream, uint64_t position) {
  return stream != nullptr && static_cast<Stream*>(stream)->help(position) ? 1 : 0;
}

}  // namespace hostccl
