"""Who may do what: roles, the proofs that processes show of theirs, and the files that hold them.

- `roles`, `access`: the roles there are, and the one table of which may call which method.
- `token`: signed tokens, made and verified. `local`: proofs among processes of one user of a host.
- `secret_file`, `folder`: files that only their user may read; a role's folder of them, watched.
- `certificate`: what is wrong with this process's own, where a service hangs up.
- `authority`: what ``penstock keys`` makes: a CA, certificates, signing keys.
- `seal`: how a worker knows that a definition came from its dispatcher.
- `guard`: admits or refuses a call. It knows no gRPC, which `penstock.wire` adds.
- `http`: the same for requests of HTTP, and how that speaks TLS.

Who verifies loads the package `cryptography`; who only shows a token does not.
"""
