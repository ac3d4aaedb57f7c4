#include "hostccl/abi.h"

namespace hostccl {
namespace {

constexpr int64_t kDefaultInitTimeout = 1800 * pycomms::kSecond;

}  // namespace

Failure& last_failure() {
  thread_local Failure failure;
  return failure;
}

Result refuse(const std::string& text, Result result) {
  last_failure() = make_failure(FailureKind::kUsage, -1, text);
  return result;
}

Result done(Comm* comm, Result result) {
  if (result == nccl_abi::kUnhandledCudaError) return refuse("the stream did not take the operation", result);
  if (comm == nullptr || result == nccl_abi::kSuccess || result == nccl_abi::kInProgress) return result;
  last_failure() = comm->impl.failure();
  return result;
}

int64_t& init_timeout_ns() {
  thread_local int64_t timeout = kDefaultInitTimeout;
  return timeout;
}

Result check_config(const nccl_abi::Config* config) {
  if (config == nullptr || config->magic == nccl_abi::kConfigMagic) return nccl_abi::kSuccess;
  return refuse("config was not initialised with NCCL_CONFIG_INITIALIZER");
}

Result finish_init(Comm* comm, const nccl_abi::Config* config) {
  const bool is_blocking = config == nullptr || config->blocking != 0;
  if (!is_blocking) return nccl_abi::kInProgress;
  return done(comm, comm->impl.wait_until_ready(pycomms::Deadline::after(pycomms::kForever)));
}

Result check_ready(Comm* comm) {
  if (comm == nullptr) return refuse("the communicator is null");
  if (comm->impl.is_foreign()) {
    return refuse("this process was forked from the one that made the communicator, and cannot use it; make a new one",
                  nccl_abi::kInvalidUsage);
  }
  const Result state = comm->impl.async_error();
  if (state == nccl_abi::kInProgress) return refuse("the communicator is still being made", nccl_abi::kInvalidUsage);
  return done(comm, state);
}

Result check_rank(const Comm* comm, const char* name, int rank) {
  if (rank >= 0 && rank < comm->impl.nranks()) return nccl_abi::kSuccess;
  return refuse(std::string(name) + " is " + std::to_string(rank) + ", but the communicator has ranks 0 to " +
                std::to_string(comm->impl.nranks() - 1));
}

Result check_pointer(const char* name, const void* pointer, size_t count) {
  if (pointer != nullptr || count == 0) return nccl_abi::kSuccess;
  return refuse(std::string(name) + " is null, but " + std::to_string(count) + " elements are expected there");
}

Result check_call(Comm* comm, DataType type) {
  RETURN_IF_REFUSED(check_ready(comm));
  if (element_size(type) != 0) return nccl_abi::kSuccess;
  return refuse("datatype " + std::to_string(type) + " is unknown");
}

}  // namespace hostccl
