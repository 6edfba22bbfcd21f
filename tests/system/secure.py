"""Certificates, made when a test runs so that none of them ever gets old, and servers that show them."""
import contextlib
import datetime
import ipaddress
import ssl
import tempfile
import pathlib

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def named(text):
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def alternative(text):
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


class Identity:
    """A key and its certificate: an authority's, or with `names` a server's; issued by itself without an
    issuer. `days` is from when and until when it is good, from now."""

    def __init__(self, folder, title, names=(), issuer=None, days=(-1, 1)):
        now = datetime.datetime.utcnow()
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.title = title
        builder = (x509.CertificateBuilder()
                   .subject_name(named(title)).issuer_name(named((issuer or self).title))
                   .public_key(self.key.public_key()).serial_number(x509.random_serial_number())
                   .not_valid_before(now + datetime.timedelta(days=days[0]))
                   .not_valid_after(now + datetime.timedelta(days=days[1]))
                   .add_extension(x509.BasicConstraints(ca=not names, path_length=None), critical=True))
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName([alternative(name) for name in names]),
                                            critical=False)
        certificate = builder.sign((issuer or self).key, hashes.SHA256())
        self.path = folder / f'{title}.pem'
        self.path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        self.key_path = folder / f'{title}.key'
        self.key_path.write_bytes(self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))


class Town:
    """An authority, and servers' certificates from it."""

    def __init__(self, folder):
        self.folder = folder
        self.count = 0
        self.authority = Identity(folder, 'authority')

    def ca(self, more=''):
        """For an upstream in a config."""
        return f'tls: {{ ca: {self.authority.path}{", " if more else ""}{more} }}'

    def identity(self, *names, **more):
        self.count += 1
        names = names or ('localhost', '127.0.0.1', '::1')
        return Identity(self.folder, f'server{self.count}', names, **{'issuer': self.authority, **more})

    def context(self, *names, version=None, **more):
        """What a server needs. The names that it is called by are in `called`."""
        identity = self.identity(*names, **more)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(identity.path, identity.key_path)
        context.set_alpn_protocols(['h2', 'http/1.1'])
        if version is not None:
            context.minimum_version = context.maximum_version = version
        context.called = []
        context.sni_callback = lambda _, name, __: context.called.append(name)
        return context


@contextlib.contextmanager
def town():
    with tempfile.TemporaryDirectory() as folder:
        yield Town(pathlib.Path(folder))
