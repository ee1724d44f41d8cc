import socket,os,ctypes,errno
def t(n,f):
    try: r=f(); print("OK!",n,r)
    except BaseException as e: print("no ",n,type(e).__name__,getattr(e,'errno',e))
def tcp(a,p,fam=socket.AF_INET):
    s=socket.socket(fam,socket.SOCK_STREAM); s.settimeout(2); s.connect((a,p)); return s.recv(10)
t("tcp lo",lambda:tcp("127.0.0.1",18999))
t("tcp6",lambda:tcp("::1",18999,socket.AF_INET6))
t("abs",lambda:(lambda s:(s.connect("\0redabs"),s.recv(5)))(socket.socket(socket.AF_UNIX)))
t("path",lambda:(lambda s:(s.connect(os.environ["HOME"]+"/red.sock"),s.recv(5)))(socket.socket(socket.AF_UNIX)))
t("wssock",lambda:(lambda s:(s.connect("ws.sock"),s.recv(5)))(socket.socket(socket.AF_UNIX)))
for fam in range(0,46):
    for ty in (1,2,3,5):
        try: s=socket.socket(fam,ty); print("family",fam,ty)
        except OSError as e: pass
def udp():
    s=socket.socket(socket.AF_INET,socket.SOCK_DGRAM); return s.sendto(b"x",("127.0.0.1",18998))
t("udp",udp)
t("ifaces",lambda:socket.if_nameindex())
