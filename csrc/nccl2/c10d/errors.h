// Errors of core as C++ exceptions. c10::DistBackendError is what torch's bindings expect; module.cpp turns a CommError
// into the class of pycomms.errors that says more.
// Must not know: Python.
#pragma once

#include <c10/util/Exception.h>

#include <exception>
#include <string>
#include <vector>

#include "nccl2/core/error.h"

namespace pycomms::c10d_backend {

class CommError : public c10::DistBackendError {
 public:
  explicit CommError(pycomms::Error error)
      : c10::DistBackendError(error.detail().message, nullptr), error_(std::move(error)) {}
  const ErrorDetail& detail() const { return error_.detail(); }

 private:
  pycomms::Error error_;
};

// Throws what the error stands for: KeyboardInterrupt when the wait ended for a signal, ValueError for wrong arguments, an
// exception of Python otherwise (python_errors.h).
[[noreturn]] void throw_error(Error error);
inline void throw_if(Error error) {
  if (error) [[unlikely]]
    throw_error(std::move(error));
}
std::exception_ptr to_exception_ptr(const Error& error);

// What an exception of torch or of the standard library says, in a line or two: torch's own text ends in a backtrace.
std::string text_of(const std::exception& exception);

// "rank 2", "ranks 0, 1, 3"
std::string rank_list(const std::vector<int>& ranks);

[[noreturn]] void throw_value_error(const char* op, const std::string& what);
[[noreturn]] void throw_type_error(const char* op, const std::string& what);

}  // namespace pycomms::c10d_backend
