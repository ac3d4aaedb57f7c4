#include "nccl2/core/failure.h"

#include <algorithm>
#include <cstdio>

namespace pycomms {
namespace {

ErrorKind to_error_kind(hostccl::FailureKind kind) {
  switch (kind) {
    case hostccl::FailureKind::kMismatch:
      return ErrorKind::kMismatch;
    case hostccl::FailureKind::kPeerDead:
    case hostccl::FailureKind::kPeerClosed:
      return ErrorKind::kPeerFailure;
    case hostccl::FailureKind::kTimeout:
      return ErrorKind::kTimeout;
    case hostccl::FailureKind::kAborted:
      return ErrorKind::kRevoked;
    case hostccl::FailureKind::kInterrupted:
      return ErrorKind::kInterrupted;
    case hostccl::FailureKind::kUsage:
      return ErrorKind::kUsage;
    case hostccl::FailureKind::kNone:
    case hostccl::FailureKind::kSystem:
      return ErrorKind::kSystem;
  }
  return ErrorKind::kSystem;
}

hostccl::FailureKind to_failure_kind(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kMismatch:
      return hostccl::FailureKind::kMismatch;
    case ErrorKind::kPeerFailure:
      return hostccl::FailureKind::kPeerDead;
    case ErrorKind::kTimeout:
      return hostccl::FailureKind::kTimeout;
    case ErrorKind::kRevoked:
    case ErrorKind::kClosed:
      return hostccl::FailureKind::kAborted;
    case ErrorKind::kInterrupted:
      return hostccl::FailureKind::kInterrupted;
    case ErrorKind::kUsage:
    case ErrorKind::kNotFinite:
    case ErrorKind::kSystem:
      return hostccl::FailureKind::kSystem;
  }
  return hostccl::FailureKind::kSystem;
}

ErrorKind to_error_kind(EngineResult result) {
  switch (result) {
    case nccl_abi::kInvalidArgument:
    case nccl_abi::kInvalidUsage:
      return ErrorKind::kUsage;
    case nccl_abi::kRemoteError:
      return ErrorKind::kPeerFailure;
    case nccl_abi::kTimeout:
    case nccl_abi::kInProgress:
      return ErrorKind::kTimeout;
    case nccl_abi::kSuccess:
    case nccl_abi::kUnhandledCudaError:
    case nccl_abi::kSystemError:
    case nccl_abi::kInternalError:
      return ErrorKind::kSystem;
  }
  return ErrorKind::kSystem;
}

bool is_usage(EngineResult result) { return result == nccl_abi::kInvalidArgument || result == nccl_abi::kInvalidUsage; }

// The failure that belongs to `result`: of the communicator, or of this call when its arguments were wrong. Ranks that disagree
// have the same result as wrong arguments, and of an operation that ran elsewhere this thread's last call says nothing.
bool ask(const Engine& engine, CommHandle comm, EngineResult result, hostccl::Failure* failure) {
  const HostcclApi& host = engine.host;
  if (host.comm_get_failure != nullptr && comm != nullptr) static_cast<void>(host.comm_get_failure(comm, failure));
  if (failure->kind == hostccl::FailureKind::kMismatch) return true;
  hostccl::Failure last{};
  if (is_usage(result) && host.last_failure != nullptr && host.last_failure(&last) == nccl_abi::kSuccess &&
      last.kind == hostccl::FailureKind::kUsage) {
    *failure = last;
  }
  return failure->kind != hostccl::FailureKind::kNone;
}

Explanation to_explanation(const hostccl::Failure& failure) {
  Explanation explanation;
  explanation.kind = to_error_kind(failure.kind);
  explanation.text = failure.text;
  explanation.op = failure.op;
  explanation.sequence = failure.sequence;
  explanation.ranks.assign(failure.ranks, failure.ranks + std::clamp(failure.nranks, 0, hostccl::kMaxFailedRanks));
  return explanation;
}

}  // namespace

Explanation explain_call(const Engine& engine, EngineResult result) {
  hostccl::Failure failure{};
  if (engine.host.last_failure(&failure) == nccl_abi::kSuccess && failure.kind != hostccl::FailureKind::kNone) {
    return to_explanation(failure);
  }
  return {to_error_kind(result), engine.nccl.get_error_string(result), {}, 0, {}};
}

Explanation explain_engine(const Engine& engine, CommHandle comm, EngineResult result) {
  Explanation explanation;
  hostccl::Failure failure{};
  if (ask(engine, comm, result, &failure)) return to_explanation(failure);
  explanation.kind = to_error_kind(result);
  explanation.text = engine.nccl.get_error_string(result);
  if (const std::string more = last_engine_text(engine, comm); !more.empty()) explanation.text += ": " + more;
  return explanation;
}

hostccl::Failure to_failure(const ErrorDetail& error) {
  hostccl::Failure failure{};
  failure.kind = to_failure_kind(error.kind);
  failure.reporter = error.rank;
  failure.sequence = error.sequence;
  failure.nranks = static_cast<int>(std::min<size_t>(error.ranks.size(), hostccl::kMaxFailedRanks));
  std::copy_n(error.ranks.begin(), failure.nranks, failure.ranks);
  std::snprintf(failure.op, sizeof failure.op, "%s", error.op.c_str());
  std::snprintf(failure.text, sizeof failure.text, "%s", error.message.c_str());
  return failure;
}

std::string last_engine_text(const Engine& engine, CommHandle comm) {
  if (engine.host.last_failure != nullptr) {
    hostccl::Failure failure{};
    if (engine.host.last_failure(&failure) == nccl_abi::kSuccess && failure.text[0] != '\0') return failure.text;
  }
  const char* text = engine.nccl.get_last_error(comm);
  return text != nullptr ? text : "";
}

}  // namespace pycomms
