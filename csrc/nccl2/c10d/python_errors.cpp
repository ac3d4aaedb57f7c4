#include "nccl2/c10d/python_errors.h"

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "nccl2/c10d/errors.h"
#include "nccl2/c10d/python_hooks.h"

namespace py = pybind11;

namespace pycomms::c10d_backend {
namespace {

const char* kind_name(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kUsage:
      return "usage";
    case ErrorKind::kMismatch:
      return "mismatch";
    case ErrorKind::kPeerFailure:
      return "peer_failure";
    case ErrorKind::kTimeout:
      return "timeout";
    case ErrorKind::kRevoked:
      return "revoked";
    case ErrorKind::kClosed:
      return "closed";
    case ErrorKind::kInterrupted:
      return "interrupted";
    case ErrorKind::kNotFinite:
      return "not_finite";
    case ErrorKind::kSystem:
      return "system";
  }
  return "system";
}

}  // namespace

void raise_in_python(const ErrorDetail& detail) {
  const py::object make = py::module_::import("pycomms.errors").attr("_from_native");
  const py::object error = make(kind_name(detail.kind), detail.message, py::cast(detail.ranks), detail.op,
                                detail.sequence, detail.group, detail.rank);
  PyErr_SetObject(py::type::handle_of(error).ptr(), error.ptr());
}

std::exception_ptr to_python_exception(const Error& error) {
  if (!interpreter_is_up()) return to_exception_ptr(error);
  const py::gil_scoped_acquire gil;
  raise_in_python(error.detail());
  return std::make_exception_ptr(py::error_already_set());
}

}  // namespace pycomms::c10d_backend
