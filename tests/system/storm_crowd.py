"""A process full of clients that wait: storm_crowd.py PORT SOURCE NAME COUNT.

Each connects from the source address, sends a request and stays. It says `ready` when all have sent; they
go away together with the process, when its input ends."""
import socket
import sys

IP_BIND_ADDRESS_NO_PORT = 24  # the port is chosen when the destination is known, so more are free


def main(port, source, name, count):
    clients = []
    for i in range(count):
        client = socket.socket()
        client.setsockopt(socket.IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1)
        client.bind((source, 0))
        client.connect(('127.0.0.1', port))
        client.sendall(f'GET /functions/f?hold&id={name}-{i} HTTP/1.1\r\nHost: localhost\r\n'
                       f'User-Agent: crowd/1.0\r\nAccept: */*\r\n\r\n'.encode())
        clients.append(client)
    print('ready', flush=True)
    sys.stdin.read()


if __name__ == '__main__':
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4]))
