"""The processes that are measured: one program for torch's backends, one for MPI. The C++ ones are in bench/native."""
