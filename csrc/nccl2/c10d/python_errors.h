// Errors of core as exceptions of Python. What is thrown through our own bindings is translated there (module.cpp); what travels
// in a future, as through DDP, is rethrown by bindings of torch, which know no classes of ours: it has to be one of Python's
// already. Any thread.
#pragma once

#include <exception>

#include "nccl2/core/error.h"

namespace pycomms::c10d_backend {

// Sets Python's error indicator to the class of pycomms.errors that says most. With the GIL.
void raise_in_python(const ErrorDetail& detail);

// For a future. Takes the GIL; without an interpreter it is a CommError.
std::exception_ptr to_future_error(const Error& error);

}  // namespace pycomms::c10d_backend
