#include "nccl2/c10d/errors.h"

#include "nccl2/c10d/python_errors.h"
#include "nccl2/c10d/python_hooks.h"

namespace pycomms::c10d_backend {

void throw_error(Error error) {
  switch (error.detail().kind) {
    case ErrorKind::kInterrupted:
      rethrow_pending_signal();
      break;
    case ErrorKind::kUsage:
      throw c10::ValueError(error.detail().message, nullptr);
    case ErrorKind::kMismatch:
    case ErrorKind::kPeerFailure:
    case ErrorKind::kTimeout:
    case ErrorKind::kRevoked:
    case ErrorKind::kClosed:
    case ErrorKind::kNotFinite:
    case ErrorKind::kSystem:
      break;
  }
  std::rethrow_exception(to_python_exception(error));
}

std::exception_ptr to_exception_ptr(const Error& error) { return std::make_exception_ptr(CommError(error)); }

std::string text_of(const std::exception& exception) {
  const auto* ours = dynamic_cast<const c10::Error*>(&exception);
  return ours != nullptr ? ours->what_without_backtrace() : exception.what();
}

std::string rank_list(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size(); ++i) text += (i != 0 ? ", " : "") + std::to_string(ranks[i]);
  return text;
}

void throw_value_error(const char* op, const std::string& what) {
  throw c10::ValueError("nccl2 " + std::string(op) + ": " + what, nullptr);
}

void throw_type_error(const char* op, const std::string& what) {
  throw c10::TypeError("nccl2 " + std::string(op) + ": " + what, nullptr);
}

}  // namespace pycomms::c10d_backend
