// Errors of core as exceptions of Python. Not all calls come through our own bindings: DDP calls the backend from C++, in the
// backward pass, and takes futures of it, and torch's bindings, which see what is thrown there, know no classes of ours. So it
// has to be an exception of Python already. Any thread.
#pragma once

#include <exception>

#include "nccl2/core/error.h"

namespace pycomms::c10d_backend {

// Sets Python's error indicator to the class of pycomms.errors that says most. With the GIL.
void raise_in_python(const ErrorDetail& detail);

// Takes the GIL; without an interpreter it is a CommError.
std::exception_ptr to_python_exception(const Error& error);

}  // namespace pycomms::c10d_backend
