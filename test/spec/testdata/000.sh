# The packages are compiled with -trimpath, so that this shell uses what `make build` compiled. A program that was
# compiled this way does not know where the source of the supervisor is: it looks for the built one in PATH.
go build -o bin/ares-supervisor ./cmd/ares-supervisor
