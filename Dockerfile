# The images of docker-compose.yml. `make docker-build` builds the programs below bin and .bin first, and then these
# images. Nothing is downloaded: the images start from scratch.

# busybox gives the containers a shell and the usual commands, for jobs and for `docker exec`.
FROM scratch AS base
COPY .bin/busybox /bin/busybox
RUN ["/bin/busybox", "--install", "-s", "/bin"]
RUN mkdir -p -m 1777 /tmp && mkdir -p /root /run /etc \
 && echo 'root:x:0:0:root:/root:/bin/sh' > /etc/passwd && echo 'ares:x:900:900:ares:/var/lib/ares:/bin/sh' >> /etc/passwd \
 && echo 'root:x:0:' > /etc/group && echo 'ares:x:900:' >> /etc/group
ENV PATH=/usr/local/bin:/bin

FROM base AS etcd
COPY .bin/etcd .bin/etcdctl /usr/local/bin/
RUN mkdir -p -m 700 /var/lib/etcd && chown ares:ares /var/lib/etcd
USER ares
WORKDIR /var/lib/etcd
EXPOSE 2379 2380
CMD ["/usr/local/bin/etcd"]

# The last stage, so that `docker build .` builds it.
FROM base AS ares
COPY bin/ares /usr/local/bin/ares
RUN mkdir -p -m 700 /var/lib/ares && chown ares:ares /var/lib/ares
USER ares
WORKDIR /var/lib/ares
ENV ARES_DATA_DIR=/var/lib/ares
EXPOSE 8080 9090 9091
ENTRYPOINT ["/usr/local/bin/ares"]
CMD ["server"]
